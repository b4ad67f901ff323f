/** The HTML page about an error, and the headers of pages without scripts. */
import type { ServerResponse } from 'node:http'
import { forAttribute, forText } from '../api/escape.js'

/** Response headers of pages that contain only text and an inline style. */
export const pageHeaders = {
  'Content-Type': 'text/html; charset=utf-8',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'",
}

interface PageText {
  /** The title of the page. Absent: the status. */
  readonly title?: string
  /** What the message means, in plain words. */
  readonly meaning?: string
  /** Where the reader can go on. */
  readonly link?: { readonly address: string; readonly text: string }
}

/** Sends an HTML page with the message. All texts are escaped. Sends only headers to HEAD. */
export function sendErrorPage(
  response: ServerResponse,
  status: number,
  message: string,
  { title = String(status), meaning = '', link }: PageText = {},
): void {
  const text =
    meaning === ''
      ? `<p>${forText(message)}</p>`
      : `<h1>${forText(title)}</h1><p>${forText(meaning)}</p><p><small>${forText(message)}</small></p>`
  const further = link ? `\n<p><a href="${forAttribute(link.address)}">${forText(link.text)}</a></p>` : ''
  const body = Buffer.from(pageOf(title, text + further))
  response.writeHead(status, { ...pageHeaders, 'Content-Length': body.length })
  response.end(response.req.method === 'HEAD' ? undefined : body)
}

/** A page with this title. `content`: HTML. */
export function pageOf(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${forText(title)}</title>
<style>:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 4rem auto; padding: 0 1rem }</style>
${content}
</html>
`
}
