//! Real clients on the simulator.
