/** The console: the web client that is built from `web/` and is part of the program. */
import { fileURLToPath } from 'node:url'
import { forAttribute, forText } from '../api/escape.js'
import { markUrl } from './mark.js'
import { isOwnPicture } from './pictures.js'
import type { WebBuild } from './web-build.js'

/** The folder of the built console, relative to this compiled module. */
export const consoleFolder = fileURLToPath(new URL('../../../web/', import.meta.url))

/**
 * Only what this server sends is loaded, and only its scripts run (Content Security Policy Level 3): no inline script,
 * no code from text, nothing of other hosts, and no site may show the console in a frame.
 */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "media-src 'self' blob:",
  "connect-src 'self'",
  "worker-src 'self'",
  // Preview documents, see below.
  "frame-src 'self'",
  "font-src 'self'",
  "manifest-src 'self'",
  "base-uri 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** Passkeys are made and used by the pages of this server only, not in frames of others (WebAuthn Level 3 §5.9). */
const permissionsPolicy = 'publickey-credentials-get=(self), publickey-credentials-create=(self)'

const policy = { 'Content-Security-Policy': contentSecurityPolicy }

/** The document that shows a file of a kind: its name has the digest of its script (`web/build.mjs`). */
const previewName = /^preview-\w+-[0-9a-f]{8}-([\w-]{43})\.html$/

/**
 * The policy of a document that shows files of others. Whatever is in them: only the script of the document runs, in an
 * origin that is no other's, so that it has no cookies, storage and API, and nothing is loaded from anywhere.
 */
function previewPolicy(digest: string): string {
  return [
    'sandbox allow-scripts',
    "default-src 'none'",
    `script-src 'sha256-${Buffer.from(digest, 'base64url').toString('base64')}'`,
    "style-src 'unsafe-inline'",
    'img-src blob: data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
  ].join('; ')
}

function filePolicy(name: string): Readonly<Record<string, string>> {
  const [, digest] = previewName.exec(name) ?? []
  // Scripts that run as workers are subject to the policy of their own response.
  return digest === undefined ? policy : { 'Content-Security-Policy': previewPolicy(digest) }
}

export const consoleBuild: WebBuild = {
  placeholders: [
    { text: '{{base}}', value: ({ site }) => forAttribute(`${site}/`) },
    { text: '{{color}}', value: ({ mainColor }) => forAttribute(mainColor) },
    { text: '{{title}}', value: ({ title }) => forText(title || 'Tidegate') },
    // The policy would not let the browser load a picture of another host.
    { text: '{{icon}}', value: ({ favicon }) => forAttribute(isOwnPicture(favicon) ? favicon : markUrl) },
  ],
  fileTarget: /^\/static\/(?!manifest\.json(?:\?|$))/,
  pagePolicy: { ...policy, 'Permissions-Policy': permissionsPolicy },
  filePolicy,
}
