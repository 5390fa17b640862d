//! From an async type to its blocking sibling: a list of its functions.

/// Makes a blocking type of an async one. What the sections are stands in `blocking/mod.rs`; they are
/// all optional and come in this order.
macro_rules! blocking {
    (
        $(#[$meta:meta])*
        pub struct $name:ident of $inner:path;
        $($sections:tt)*
    ) => {
        $(#[$meta])*
        pub struct $name {
            // In this order: the drop of the first may still need the second.
            pub(super) inner: $inner,
            pub(super) driver: fencelock_store::rt::Driver,
        }

        impl $name {
            #[allow(dead_code)] // Some are made by their owner's file.
            pub(super) fn of(inner: $inner, driver: &fencelock_store::rt::Driver) -> Self {
                Self { inner, driver: driver.clone() }
            }
        }

        $crate::blocking::wrap::verbs! { $name of $inner; $($sections)* }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.inner, f)
            }
        }
    };
}

/// Adds functions to such a type: the same sections.
macro_rules! verbs {
    (
        $name:ident of $inner:path;
        $(settings { $(fn $set:ident($($set_arg:ident: $set_type:ty),*);)* })?
        $(gets { $(fn $get:ident() -> $get_out:ty;)* })?
        $(calls { $(fn $call:ident();)* })?
        $(waits { $(fn $wait:ident($($wait_arg:ident: $wait_type:ty),*) -> $wait_out:ty;)* })?
        $(within { $(fn $within:ident of $watched:ident -> $within_out:ty;)* })?
        $(grants { $(fn $grant:ident($($grant_arg:ident: $grant_type:ty),*) -> $grant_out:ident;)* })?
        $(tries { $(fn $try:ident($($try_arg:ident: $try_type:ty),*) -> $try_out:ident;)* })?
        $(ends { $(fn $end:ident() -> $end_out:ty;)* })?
    ) => {
        impl $name {
            $($(
                #[doc = concat!("As [`", stringify!($inner), "::", stringify!($set), "`].")]
                pub fn $set(self, $($set_arg: $set_type),*) -> Self {
                    Self { inner: self.inner.$set($($set_arg),*), driver: self.driver }
                }
            )*)?

            $($(
                #[doc = concat!("As [`", stringify!($inner), "::", stringify!($get), "`].")]
                #[must_use]
                pub fn $get(&self) -> $get_out {
                    self.inner.$get()
                }
            )*)?

            $($(
                #[doc = concat!("As [`", stringify!($inner), "::", stringify!($call), "`].")]
                pub fn $call(&self) {
                    self.inner.$call();
                }
            )*)?

            $($(
                #[doc = concat!("Blocks for what [`", stringify!($inner), "::", stringify!($wait),
                    "`] does, and says the same.")]
                pub fn $wait(&self, $($wait_arg: $wait_type),*) -> $wait_out {
                    let done = self.driver.wait(self.inner.$wait($($wait_arg),*));
                    done.unwrap_or_else($crate::blocking::in_child::InChild::in_child)
                }
            )*)?

            $($(
                #[doc = concat!("Blocks for what [`", stringify!($inner), "::", stringify!($watched),
                    "`] waits for, but for at most so long; nothing when that is over.")]
                #[must_use]
                pub fn $within(&self, span: std::time::Duration) -> Option<$within_out> {
                    let limited = fencelock_store::rt::timeout(span, self.inner.$watched());
                    self.driver.wait(limited).flatten()
                }
            )*)?

            $($(
                #[doc = concat!("Blocks for what [`", stringify!($inner), "::", stringify!($grant),
                    "`] does.")]
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($inner), "::", stringify!($grant), "`].")]
                pub fn $grant(
                    &self,
                    $($grant_arg: $grant_type),*
                ) -> Result<$grant_out, $crate::Error> {
                    let granted = self.driver.wait(self.inner.$grant($($grant_arg),*));
                    granted
                        .unwrap_or_else($crate::blocking::in_child::InChild::in_child)
                        .map(|inner| $grant_out::of(inner, &self.driver))
                }
            )*)?

            $($(
                #[doc = concat!("Blocks for what [`", stringify!($inner), "::", stringify!($try),
                    "`] does.")]
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($inner), "::", stringify!($try), "`].")]
                pub fn $try(
                    &self,
                    $($try_arg: $try_type),*
                ) -> Result<$crate::Attempt<$try_out>, $crate::Error> {
                    let answer = self.driver.wait(self.inner.$try($($try_arg),*));
                    match answer.unwrap_or_else($crate::blocking::in_child::InChild::in_child)? {
                        $crate::Attempt::Granted(inner) => {
                            Ok($crate::Attempt::Granted($try_out::of(inner, &self.driver)))
                        }
                        $crate::Attempt::Busy(busy) => Ok($crate::Attempt::Busy(busy)),
                    }
                }
            )*)?

            $($(
                #[doc = concat!("Blocks for what [`", stringify!($inner), "::", stringify!($end),
                    "`] does, and says the same.")]
                pub fn $end(self) -> $end_out {
                    let done = self.driver.wait(self.inner.$end());
                    done.unwrap_or_else($crate::blocking::in_child::InChild::in_child)
                }
            )*)?
        }
    };
}

pub(super) use {blocking, verbs};
