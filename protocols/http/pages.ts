/** The built-in HTML pages: errors and the welcome page. */
import type { ServerResponse } from 'node:http'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import { splitAddress } from '../../src/net/addresses.js'
import { sitePath, type Client } from '../lib/client.js'
import { forAttribute, forText } from './escape.js'

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${forText(title)}</title>
<style>:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 4rem auto; padding: 0 1rem }
code { background: #8882; padding: 0 .2em }</style>
${body}
</html>
`
}

/** Response headers of pages that contain only text and an inline style. */
export const pageHeaders = {
  'Content-Type': 'text/html; charset=utf-8',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'",
}

/** Sends an HTML page with the message, which is escaped. Sends only headers to HEAD. */
export function sendErrorPage(response: ServerResponse, status: number, message: string): void {
  const text = page(String(status), `<p>${forText(message)}</p>`)
  sendPage(response, status, text)
}

/** Sends an HTML page. Sends only headers to HEAD. */
export function sendPage(response: ServerResponse, status: number, text: string): void {
  const body = Buffer.from(text)
  response.writeHead(status, { ...pageHeaders, 'Content-Length': body.length })
  response.end(response.req.method === 'HEAD' ? undefined : body)
}

/** A page that lists the protocols of this server, with the URLs as the client reaches them. */
export function welcomePage({ config, settings }: ProtocolGateway, client: Client): string {
  const title = settings.get('site_title') || 'Tidegate'
  const { baseUrl } = client
  const dav = `${baseUrl}/dav/`
  const protocols = [
    `WebDAV: ${code(dav)}. GNOME's file manager mounts it as ${code(dav.replace(/^http/, 'dav'))}, KDE's as ` +
      `${code(dav.replace(/^http/, 'webdav'))}, Finder and Windows as ${code(dav)}${client.secure ? '' : '; Windows requires HTTPS'}.`,
    ...sftpAccess(config.addresses.sftp, client.origin),
    `HTTP API: sign in with ${code(`POST ${baseUrl}/api/auth/login`)}, then call the endpoints below ${code(`${baseUrl}/api/fs/`)}.
The API reference is at <a href="${forAttribute(`${sitePath(config.site_url)}/api/docs`)}">/api/docs</a>.`,
  ]
  return page(
    title,
    `<h1>${forText(title)}</h1>
<p>This is a Tidegate storage gateway: one tree of files over several protocols, with the same users and the same rules.</p>
<ul>
${protocols.map((protocol) => `<li>${protocol}</li>`).join('\n')}
</ul>
<p>No web client is installed. To install one, the admin sets ${code('dist_dir')} in the configuration to its folder; see
<code>docs/operations.md</code>.</p>`,
  )
}

function code(text: string): string {
  return `<code>${forText(text)}</code>`
}

/**
 * The list item about SFTP; none if SFTP is off. The host is that of the HTTP URL, which is wrong if a proxy has
 * another name. The port is the configured one.
 */
function sftpAccess(address: string | undefined, origin: string): string[] {
  if (address === undefined || address === 'off') return []
  const { port } = splitAddress(address)
  const host = origin.replace(/^https?:\/\//, '').replace(/:\d+$/, '')
  const shown = port === 0 ? '<var>port</var>' : port
  return [
    `SFTP: <code>sftp -P ${shown} <var>user</var>@${forText(host)}</code>, with a password, or with a key that you added to your account.`,
  ]
}
