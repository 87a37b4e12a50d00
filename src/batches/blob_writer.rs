//! Writes a blob from its front, in pieces as large as one may be.

use bytes::BytesMut;
use gateway_domain::OrgId;
use gateway_domain::Timestamp;
use gateway_domain::ports::{BlobError, Blobs, MOST_BLOB_PIECE, NewBlob};
use std::sync::Arc;
use uuid::Uuid;

pub(super) struct BlobWriter {
    blobs: Arc<dyn Blobs>,
    pub(super) id: Uuid,
    at: u64,
    buffer: BytesMut,
}

impl BlobWriter {
    pub(super) async fn begin(blobs: &Arc<dyn Blobs>, blob: &NewBlob) -> Result<Self, BlobError> {
        blobs.begin(blob).await?;
        Ok(Self { blobs: blobs.clone(), id: blob.id, at: 0, buffer: BytesMut::new() })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    /// Written in the end, or when a piece is full.
    pub(super) async fn push(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= MOST_BLOB_PIECE {
            self.piece(MOST_BLOB_PIECE).await?;
        }
        Ok(())
    }

    /// Writes out all that was pushed, so that it is kept whatever becomes of this process.
    pub(super) async fn flush(&mut self) -> Result<(), BlobError> {
        let left = self.buffer.len();
        if left > 0 {
            self.piece(left).await?;
        }
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<u64, BlobError> {
        self.flush().await?;
        Ok(self.blobs.finish(self.id).await?.bytes)
    }

    async fn piece(&mut self, length: usize) -> Result<(), BlobError> {
        let piece = self.buffer.split_to(length);
        self.blobs.write(self.id, self.at, &piece).await?;
        self.at += piece.len() as u64;
        Ok(())
    }
}

pub(super) const fn new_blob(id: Uuid, org: OrgId, kind: &'static str, expires: i64) -> NewBlob {
    NewBlob { id, org, kind, expires_at: Some(Timestamp(expires.saturating_mul(1_000_000))) }
}
