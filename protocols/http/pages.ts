/** The few HTML pages that this door writes itself. */
import type { ServerResponse } from 'node:http'

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 4rem auto; padding: 0 1rem }
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
  const text = page(String(status), `<p>${escapeHtml(message)}</p>`)
  sendPage(response, status, text)
}

export function sendPage(response: ServerResponse, status: number, text: string): void {
  const body = Buffer.from(text)
  response.writeHead(status, { ...pageHeaders, 'Content-Length': body.length })
  response.end(response.req.method === 'HEAD' ? undefined : body)
}

/** What runs here, and the ways in. `site` is the address as the client sees it, without a trailing slash. */
export function welcomePage(title: string, site: string): string {
  const address = escapeHtml(site)
  return page(
    title,
    `<h1>${escapeHtml(title)}</h1>
<p>This is a Tidegate storage gateway. One tree of files, three ways in:</p>
<ul>
<li>WebDAV: mount <code>${address}/dav/</code> in a file explorer.</li>
<li>SFTP: <code>sftp -P <var>port</var> <var>user</var>@<var>host</var></code>, with a password or with a key added to your account.</li>
<li>HTTP API: sign in at <code>POST ${address}/api/auth/login</code>, then ask under <code>${address}/api/fs/</code>.</li>
</ul>`,
  )
}
