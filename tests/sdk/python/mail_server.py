"""A mail server that takes what it is sent over TLS by whoever signs in: `mail_server.py CERT KEY USER PASSWORD`.
Says its port on a line of its own, then each mail as a line of JSON. Ends with its input."""

import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

cert, key, user, password = sys.argv[1:]


class Inbox:
    async def handle_DATA(self, server, session, envelope):
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "text": envelope.content.decode("utf-8", "replace"),
            "tls": session.ssl is not None,
            "signed_in": session.authenticated,
        }
        print(json.dumps(mail), flush=True)
        return "250 taken"


def sign_in(server, session, envelope, mechanism, data):
    wanted = isinstance(data, LoginPassword) and (data.login, data.password) == (user.encode(), password.encode())
    return AuthResult(success=wanted)


def session():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    return SMTP(
        Inbox(),
        hostname="localhost",
        tls_context=context,
        require_starttls=True,
        authenticator=sign_in,
        auth_required=True,
        enable_SMTPUTF8=True,
    )


async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(session, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


asyncio.run(main())
