//! Programs to record: `graph` (HIP graphs, plain launches, high call rates) and `replay` (a real
//! recording played back), over the stand-in libraries or, for `graph`, any libamdhip64.
//!
//! They use HIP's C functions only, found with `dlopen` and `dlsym` after the `ROCSIM_*` settings
//! are in the environment, and know nothing of any tool, except that a window can be opened with
//! three C functions that are looked up by name.

mod calls;
mod cli;
mod graph;
mod hip;
mod links;
mod replay;
mod window;

pub use cli::main_sim;
pub use links::{install_links, standin_folder};
