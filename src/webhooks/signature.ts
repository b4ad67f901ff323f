/** Signatures of webhooks: HMAC-SHA256 with a secret (the specification of Standard Webhooks, "Signature scheme"). */
import { createHmac, randomBytes } from 'node:crypto'

const prefix = 'whsec_'

export function newSecret(): string {
  return prefix + randomBytes(32).toString('base64')
}

/** The headers of a message: one signature by each secret. `time`: milliseconds since 1970. */
export function signedHeaders(secrets: readonly string[], id: string, time: number, body: string) {
  const seconds = Math.floor(time / 1000)
  const sign = (secret: string) =>
    createHmac('sha256', Buffer.from(secret.slice(prefix.length), 'base64'))
      .update(`${id}.${seconds}.${body}`)
      .digest('base64')
  return {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': secrets.map((secret) => `v1,${sign(secret)}`).join(' '),
  }
}
