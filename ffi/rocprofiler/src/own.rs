//! A host that drives the runtime itself: settings that it gives instead of the environment, and a source of its own in
//! place of the SDK.
//!
//! The tool library never calls this; `libstrandline` does. Not in a callback.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use strandline::header::Phase;
use strandline::settings::{SettingError, Settings, Start};
use strandline::{Runtime, Status, Vendor};

use crate::{log, tool};

/// Settings that the host gave.
static GIVEN: Mutex<Option<Settings>> = Mutex::new(None);
/// The host opens its sessions itself.
static HOST_ASKS: AtomicBool = AtomicBool::new(false);
/// The runtime has no SDK.
static OWN: AtomicBool = AtomicBool::new(false);

/// Settings of the environment for a host that opens its sessions itself: none is opened at load unless
/// `STRANDLINE_START` says so.
///
/// # Errors
/// [`SettingError`] for the first bad value.
pub fn environment() -> Result<Settings, SettingError> {
    let mut settings = Settings::from_env()?;
    if std::env::var_os("STRANDLINE_START").is_none_or(|start| start.is_empty()) {
        settings.start = Start::Api;
    }
    Ok(settings)
}

/// Says that the host opens its sessions itself, before the SDK is configured.
pub fn host_asks() {
    HOST_ASKS.store(true, Ordering::Relaxed);
}

/// Keeps settings for whatever is configured next.
///
/// # Errors
/// [`Status::AlreadyThere`] when something is configured already.
pub fn give(settings: Settings) -> Result<(), Status> {
    if tool::is_configured() {
        return Err(Status::AlreadyThere);
    }
    *GIVEN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(settings);
    host_asks();
    Ok(())
}

/// The settings to configure with.
pub(crate) fn settings() -> Result<Settings, SettingError> {
    let given = GIVEN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .take();
    match given {
        Some(settings) => Ok(settings),
        None if HOST_ASKS.load(Ordering::Relaxed) => environment(),
        None => Settings::from_env(),
    }
}

/// True when the runtime has a source of the host's own, and no SDK.
pub fn is_own() -> bool {
    OWN.load(Ordering::Acquire)
}

/// Makes the runtime for a source of the host's own; no SDK is configured after that.
///
/// # Errors
/// [`Status::AlreadyThere`], or why there is no region.
pub fn make(settings: Settings, vendor: &Vendor) -> Result<&'static Runtime, Status> {
    if !tool::claim() {
        return Err(Status::AlreadyThere);
    }
    log::set(settings.log.clone());
    strandline::clock::is_tsc();
    let runtime = Runtime::make_global(settings, vendor).map_err(|(status, why)| {
        tool::unclaim();
        log::line(&format!("tracing is off: {why}"));
        status
    })?;
    OWN.store(true, Ordering::Release);
    if let Err(error) = runtime.start_housekeeper(None, None) {
        log::line(&format!(
            "no housekeeper thread: {error}; memory does not grow beyond its first step"
        ));
    }
    runtime.set_phase(Phase::Running);
    tool::ready();
    log::line(&format!("tracing into {}", runtime.path().display()));
    Ok(runtime)
}
