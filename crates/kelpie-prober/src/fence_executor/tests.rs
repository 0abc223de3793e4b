mod takeover;
mod waiting;
