//! The lines of an answer that is JSON line by line, one after the other: of however long an answer no more is held
//! than the line that is coming. Knows nothing of what lines say.

use super::{Response, SendError};
use bytes::{Bytes, BytesMut};

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error(transparent)]
    Lost(SendError),
    #[error("a line of the answer has more than {0} bytes")]
    TooLong(usize),
}

#[derive(Debug)]
pub struct ResponseLines {
    response: Response,
    buffer: BytesMut,
    /// So much of the buffer holds no end of a line.
    searched: usize,
    /// Bytes of one line.
    most: usize,
    ended: bool,
}

impl ResponseLines {
    pub fn new(response: Response, most: usize) -> Self {
        Self { response, buffer: BytesMut::new(), searched: 0, most, ended: false }
    }

    /// The next line with its end; the last one may have none. Nothing is lost when it is dropped.
    pub async fn next(&mut self) -> Result<Option<Bytes>, LineError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.buffer.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.ended {
                self.searched = 0;
                return Ok(Some(self.buffer.split().freeze()).filter(|rest| !rest.is_empty()));
            }
            if self.buffer.len() > self.most {
                return Err(LineError::TooLong(self.most));
            }
            match self.response.read().await.map_err(LineError::Lost)? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => self.ended = true,
            }
        }
    }
}
