//! Posts to a collector, over one connection that is kept.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::settings::Settings;
use crate::forward::tls;

/// Most that is read of an answer: it says what was refused, in a few words.
const ANSWER_BYTES_MAX: usize = 64 << 10;

pub(super) struct Client {
    to: Uri,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
    headers: Vec<(http::HeaderName, http::HeaderValue)>,
    timeout: Duration,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// Why something was not delivered.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    /// It may be taken later.
    #[error("the collector cannot be reached: {0}")]
    Away(String),
    /// It will never be taken.
    #[error("the collector refuses it with {0}")]
    Refused(StatusCode),
}

impl Client {
    pub(super) fn new(to: &Uri, settings: &Settings) -> Result<Self, tls::TlsError> {
        let is_tls = to.scheme_str() == Some("https");
        let usual_port = if is_tls { 443 } else { 80 };
        let host = to.host().unwrap_or_default();
        Ok(Client {
            to: to.clone(),
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: to.port_u16().unwrap_or(usual_port),
            tls: match is_tls {
                true => Some(tls::connector(settings.ca_file.as_deref(), &[b"http/1.1"])?),
                false => None,
            },
            headers: settings.headers.clone(),
            timeout: settings.timeout,
            connection: None,
        })
    }

    /// Posts a message, in protobuf, and gives the answer's body.
    pub(super) async fn post(&mut self, body: Bytes) -> Result<Bytes, PostError> {
        let posted = tokio::time::timeout(self.timeout, self.try_post(body)).await;
        let posted = posted.unwrap_or_else(|_| Err(PostError::Away("it does not answer".to_owned())));
        if posted.is_err() {
            // Whatever may still come over it belongs to this request.
            self.connection = None;
        }
        posted
    }

    async fn try_post(&mut self, body: Bytes) -> Result<Bytes, PostError> {
        let away = |error: &dyn std::error::Error| PostError::Away(error.to_string());
        let mut sender = match self.connection.take().filter(|kept| !kept.is_closed()) {
            Some(kept) => kept,
            None => self.connect().await.map_err(|error| away(&error))?,
        };
        sender.ready().await.map_err(|error| away(&error))?;
        let answer = sender.send_request(self.request(body)).await;
        let answer = answer.map_err(|error| away(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| PostError::Away(error.to_string()))?.to_bytes();
        self.connection = Some(sender);
        match status {
            status if status.is_success() => Ok(body),
            // Those that the protocol calls temporary.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(PostError::Away(format!("it answers {status}"))),
            status => Err(PostError::Refused(status)),
        }
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        let path = self.to.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.extend(
            self.headers
                .iter()
                .map(|(name, value)| (Some(name.clone()), value.clone())),
        );
        let authority = self.to.authority().map_or("", |authority| authority.as_str());
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if let Ok(host) = host.parse() {
            headers.insert(header::HOST, host);
        }
        let kind = http::HeaderValue::from_static("application/x-protobuf");
        headers.insert(header::CONTENT_TYPE, kind);
        request
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        match &self.tls {
            None => handshake(stream).await,
            Some(tls) => handshake(tls.connect(tls::server_name(&self.host)?, stream).await?).await,
        }
    }
}

async fn handshake<T>(stream: T) -> io::Result<SendRequest<Full<Bytes>>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let made = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(io::Error::other)?;
    // Its errors reach whoever waits for an answer.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
