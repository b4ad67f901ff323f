/** The few HTML pages that this door writes itself. */
import type { ServerResponse } from 'node:http'
import { splitAddress } from '../../src/config.js'
import type { Gateway } from '../../src/gateway.js'
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

/** Of pages that hold nothing but text and their own style. */
export const pageHeaders = {
  'Content-Type': 'text/html; charset=utf-8',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'",
}

/** Answers with a small page that holds the message; nothing but headers to HEAD. */
export function sendErrorPage(response: ServerResponse, status: number, message: string): void {
  const text = page(String(status), `<p>${forText(message)}</p>`)
  sendPage(response, status, text)
}

export function sendPage(response: ServerResponse, status: number, text: string): void {
  const body = Buffer.from(text)
  response.writeHead(status, { ...pageHeaders, 'Content-Length': body.length })
  response.end(response.req.method === 'HEAD' ? undefined : body)
}

/** What runs here, and the ways in as this client would take them. */
export function welcomePage({ config, settings }: Gateway, client: Client): string {
  const title = settings.get('site_title') || 'Tidegate'
  const { baseUrl } = client
  const dav = `${baseUrl}/dav/`
  const ways = [
    `WebDAV: ${code(dav)}. GNOME's file manager mounts it as ${code(dav.replace(/^http/, 'dav'))}, KDE's as ` +
      `${code(dav.replace(/^http/, 'webdav'))}, Finder and Windows as it stands here${client.secure ? '' : '; Windows wants https'}.`,
    ...sftpWay(config.sftp, client.origin),
    `HTTP API: sign in at ${code(`POST ${baseUrl}/api/auth/login`)}, then ask below ${code(`${baseUrl}/api/fs/`)}.
All of it is described at <a href="${forAttribute(`${sitePath(config.site_url)}/api/docs`)}">/api/docs</a>.`,
  ]
  return page(
    title,
    `<h1>${forText(title)}</h1>
<p>This is a Tidegate storage gateway: one tree of files, and these ways in, for the same users under the same rules.</p>
<ul>
${ways.map((way) => `<li>${way}</li>`).join('\n')}
</ul>
<p>There are no pages to browse the tree here: the admin may name the folder of a web client as ${code('dist_dir')} in the
configuration, as <code>docs/operations.md</code> tells, which came with the program.</p>`,
  )
}

function code(text: string): string {
  return `<code>${forText(text)}</code>`
}

/** None where SFTP is off. A proxy in front of HTTP may have another name; more than the own port is not known here. */
function sftpWay(address: string, origin: string): string[] {
  if (address === 'off') return []
  const { port } = splitAddress(address)
  const host = origin.replace(/^https?:\/\//, '').replace(/:\d+$/, '')
  const shown = port === 0 ? '<var>port</var>' : port
  return [
    `SFTP: <code>sftp -P ${shown} <var>user</var>@${forText(host)}</code>, with a password, or with a key that you added to your account.`,
  ]
}
