mod fixture;
mod slow_seed;
mod takeover;
mod waiting;
