//! placeholder
use crate::cli::{Environment, ReplayArgs};
pub(crate) struct Recording;
pub(crate) fn prepare(
    _args: &ReplayArgs,
    _environment: &mut Environment,
) -> Result<Recording, String> {
    Err("not yet".into())
}
pub(crate) fn run(_args: &ReplayArgs, _recording: &Recording) -> Result<(), String> {
    Ok(())
}
