/** The pages of single sign-on that no client has: the one that hands a token to its opener, and the one for a code. */
import { randomBytes } from 'node:crypto'
import { forAttribute, forScript, forText } from '../api/escape.js'
import { pageHeaders, pageOf } from './pages.js'

export interface Page {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Nothing of these pages is stored, or told to other sites. */
export const secretHeaders = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' }

/**
 * The page of a window that a client of this site has opened: gives the fields to the client, if it is of the same
 * origin, and closes.
 */
export function openerPage(fields: Readonly<Record<string, string>>): Page {
  const nonce = randomBytes(16).toString('base64')
  const message = Object.entries(fields).map(([name, value]) => `${forScript(name)}: ${forScript(value)}`)
  const script = `if (opener) opener.postMessage({ ${message.join(', ')} }, location.origin); close()`
  return {
    headers: {
      ...pageHeaders,
      ...secretHeaders,
      'Content-Security-Policy': `default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-${nonce}'`,
    },
    body: pageOf('Signed in', `<p>You can close this window.</p>\n<script nonce="${nonce}">${script}</script>`),
  }
}

/** The policy of pages that no site may show in a frame (Content Security Policy Level 3). */
const policy = `${pageHeaders['Content-Security-Policy']}; frame-ancestors 'none'`

/** Asks whether a sign-in shall begin that another site has led the browser to. `address`: where it begins. */
export function confirmPage(address: string): Page {
  const question = `<h1>Sign in?</h1>
<p>Another site has led you here. Go on if you want to sign in to this one.</p>
<p><a href="${forAttribute(address)}">Sign in</a></p>`
  return {
    headers: { ...pageHeaders, ...secretHeaders, 'Content-Security-Policy': policy },
    body: pageOf('Sign in?', question),
  }
}

/** Leads to a page of another site. */
export function leadingPage(address: string): Page {
  const link = `<p><a href="${forAttribute(address)}">Go on at the provider</a></p>`
  return {
    headers: { ...pageHeaders, ...secretHeaders, 'Content-Security-Policy': policy, Refresh: `0; url=${address}` },
    body: pageOf('Go on at the provider', link),
  }
}

/** Asks for the code of two-step verification. `action`: where it is sent. `fields`: sent with it. */
export function codePage(action: string, fields: Readonly<Record<string, string>>, error = ''): Page {
  const hidden = Object.entries(fields).map(
    ([name, value]) => `<input type="hidden" name="${forAttribute(name)}" value="${forAttribute(value)}">`,
  )
  const form = `<h1>Two-step verification</h1>
<p>Enter the code of your authenticator app, or a recovery code.</p>
${error === '' ? '' : `<p role="alert">${forText(error)}</p>`}
<form method="post" action="${forAttribute(action)}">
${hidden.join('\n')}
<p><label>Code <input name="otp_code" autocomplete="one-time-code" required autofocus></label></p>
<p><button>Go on</button></p>
</form>`
  return {
    headers: { ...pageHeaders, ...secretHeaders, 'Content-Security-Policy': `${policy}; form-action 'self'` },
    body: pageOf('Two-step verification', form),
  }
}
