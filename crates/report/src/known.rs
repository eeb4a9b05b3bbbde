//! The result of a read that may be forbidden.

use policy_sync_hub::HubError;

/// A value, or the error of a missing right.
///
/// The type has no default value, and code that reads the value must also handle the error. So a forbidden read cannot
/// become an empty result.
#[derive(Debug)]
#[must_use]
pub enum Known<T> {
    /// The value was read.
    Known(T),
    /// The user lacks the right to read the value.
    Unknown(HubError),
}

impl<T> Known<T> {
    /// Converts the result of a request.
    ///
    /// # Errors
    ///
    /// All errors except a missing right.
    pub fn of(read: Result<T, HubError>) -> Result<Self, HubError> {
        match read {
            Ok(value) => Ok(Self::Known(value)),
            Err(error) if error.is_forbidden() => Ok(Self::Unknown(error)),
            Err(error) => Err(error),
        }
    }

    /// Returns the value, or adds the missing right to `unread` as a line.
    pub fn or_record(self, unread: &mut Vec<String>) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(error) => {
                unread.push(error.to_string());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> HubError {
        let (what, url, cause) = ("list Gateways".to_owned(), "https://hub".to_owned(), "no".to_owned());
        HubError::Rejected { what, url, cause, code }
    }

    #[test]
    fn only_a_missing_right_is_unknown() {
        let mut unread = Vec::new();
        assert_eq!(Known::of(Ok(1)).unwrap().or_record(&mut unread), Some(1));
        assert!(unread.is_empty());
        assert_eq!(Known::<u8>::of(Err(refused(403))).unwrap().or_record(&mut unread), None);
        assert_eq!(unread, ["cannot list Gateways on the hub at https://hub: no"]);
        assert!(Known::<u8>::of(Err(refused(404))).is_err());
    }
}
