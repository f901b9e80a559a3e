//! Statuses: what the runtime answers instead of panicking or printing.

/// A status. Numbers are part of the C API and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Status {
    /// Done.
    Ok = 0,
    /// The runtime is not there: not configured, disabled by a bad setting, or in a forked child.
    NotReady = 1,
    /// A session is open already.
    SessionOpen = 2,
    /// There is no such session, or it was accounted for already.
    NoSuchSession = 3,
    /// Not accounted for within the deadline; the result says what is missing.
    Deadline = 4,
    /// Called from inside an SDK callback or finalizer: the session is closed, the waiting is done elsewhere.
    InsideCallback = 5,
    /// Too many sessions wait for their proof.
    TooManyPending = 6,
    /// An argument is null or has an impossible value.
    InvalidArgument = 7,
    /// The caller's struct is smaller than this version needs.
    StructTooSmall = 8,
    /// The region can't be made: folder, space or permission.
    NoRegion = 9,
    /// The SDK was not found.
    SdkMissing = 10,
    /// The SDK was configured already and takes no more tools.
    SdkLocked = 11,
    /// The SDK is older than this tool needs, or smaller in a struct.
    SdkTooOld = 12,
    /// The output can't be written.
    Output = 13,
    /// The output exists already and is not overwritten.
    OutputExists = 14,
    /// A setting has a bad value; tracing is off.
    BadSetting = 15,
    /// The SDK refused a service.
    SdkRefused = 16,
    /// Something in the runtime broke; the session was ended.
    Internal = 17,
    /// The process is finalizing.
    Finalizing = 18,
    /// The runtime is there already, with the settings that it was made with.
    AlreadyThere = 19,
    /// The handle was closed, or was never one of this library's.
    BadHandle = 20,
    /// There is nothing (more) of what was asked for, at least not now.
    Nothing = 21,
    /// The file can't be opened.
    NoFile = 22,
    /// The file is no region, or one of a version that this library does not read.
    BadFile = 23,
    /// Too many handles are open.
    TooManyHandles = 24,
}

impl Status {
    /// The status with that number.
    pub const fn from_i32(value: i32) -> Option<Self> {
        use Status::*;
        const ALL: [Status; 25] = [
            Ok,
            NotReady,
            SessionOpen,
            NoSuchSession,
            Deadline,
            InsideCallback,
            TooManyPending,
            InvalidArgument,
            StructTooSmall,
            NoRegion,
            SdkMissing,
            SdkLocked,
            SdkTooOld,
            Output,
            OutputExists,
            BadSetting,
            SdkRefused,
            Internal,
            Finalizing,
            AlreadyThere,
            BadHandle,
            Nothing,
            NoFile,
            BadFile,
            TooManyHandles,
        ];
        if value < 0 || value as usize >= ALL.len() {
            None
        } else {
            Some(ALL[value as usize])
        }
    }

    /// A sentence for people, with a terminating NUL for C.
    pub const fn c_text(self) -> &'static std::ffi::CStr {
        match self {
            Self::Ok => c"ok",
            Self::NotReady => c"the runtime is not ready: not configured, switched off by a bad setting, or in a forked child",
            Self::SessionOpen => c"a session is open already; stop it first",
            Self::NoSuchSession => c"no such session, or it was accounted for already",
            Self::Deadline => c"not accounted for within the deadline; the result says how much is missing",
            Self::InsideCallback => c"called inside an SDK callback or finalizer: the session is closed and is accounted for elsewhere",
            Self::TooManyPending => c"too many sessions wait for their proof; wait for the oldest",
            Self::InvalidArgument => c"an argument is null or has an impossible value",
            Self::StructTooSmall => c"the caller's struct is smaller than this version needs; set its size field",
            Self::NoRegion => c"the region can't be made: check the folder, its free space and its permissions",
            Self::SdkMissing => c"the SDK was not found; check LD_LIBRARY_PATH or run: strandline doctor",
            Self::SdkLocked => c"the SDK was configured already and takes no more tools; load this one earlier",
            Self::SdkTooOld => c"the SDK is older than this tool needs",
            Self::Output => c"the output can't be written",
            Self::OutputExists => c"the output exists already and is not overwritten",
            Self::BadSetting => c"a STRANDLINE_ setting has a bad value; tracing is off",
            Self::SdkRefused => c"the SDK refused a service",
            Self::Internal => c"internal error: the session was ended",
            Self::Finalizing => c"the process is finalizing",
            Self::AlreadyThere => c"the runtime is there already, with the settings that it was made with",
            Self::BadHandle => c"the handle was closed, or was never one of this library's",
            Self::Nothing => c"there is nothing more of what was asked for, at least not now",
            Self::NoFile => c"the file can't be opened",
            Self::BadFile => c"the file is no region, or one of a version that this library does not read",
            Self::TooManyHandles => c"too many handles are open; close some",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.c_text().to_str().unwrap_or("?"))
    }
}

impl std::error::Error for Status {}
