//! Why an answer is no answer, in words of our own: they reach clients and records.

/// What was wrong with a connection, or with what came over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BrokenWhy {
    #[error("the connection was closed without an answer")]
    NoAnswer,
    #[error("the connection was closed in the middle of the answer")]
    CutOff,
    #[error("the connection was reset")]
    Reset,
    #[error("what came is not HTTP/1.1")]
    NotHttp,
    #[error("the head of the answer is larger than 64 KiB")]
    HeadTooLarge,
    #[error("the answer has more than 100 headers")]
    TooManyHeaders,
    #[error("a header of the answer is malformed")]
    BadHeader,
    #[error("the status of the answer is none of HTTP")]
    BadStatus,
    #[error("too many interim answers came")]
    TooManyInterim,
    #[error("the answer switches protocols, which was not asked for")]
    UnaskedSwitch,
    #[error("the length of the answer is malformed or told twice")]
    BadLength,
    #[error("the answer has a transfer encoding other than chunked")]
    BadEncoding,
    #[error("the answer has both a length and a transfer encoding")]
    LengthAndEncoding,
    #[error("a chunk of the answer is malformed")]
    BadChunk,
    #[error("the chunks of the answer carry too many extensions or trailers")]
    ChunksTooLarge,
}
