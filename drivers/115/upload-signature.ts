/** The signatures by which 115's web API recognizes its own programs when they begin an upload. */
import { createHash } from 'node:crypto'

export interface SignedUpload {
  readonly userId: string
  readonly userKey: string
  /** SHA-1 of the file, in upper-case hexadecimal. */
  readonly sha1: string
  /** Bytes. */
  readonly size: number
  /** `U_1_` and the id of the folder. */
  readonly target: string
  /** Milliseconds since 1970. */
  readonly time: number
  readonly appVersion: string
  /** The proof that the server has asked for; empty texts without one. */
  readonly signKey: string
  readonly signValue: string
}

const salt = 'Qclm8MGWUv59TnrR0XPg'

function hexDigest(algorithm: 'sha1' | 'md5', text: string): string {
  return createHash(algorithm).update(text).digest('hex')
}

/** The form field `sig`. */
export function uploadSignature({ userId, userKey, sha1, target }: SignedUpload): string {
  const inner = hexDigest('sha1', `${userId}${sha1}${target}0`)
  return hexDigest('sha1', `${userKey}${inner}000000`).toUpperCase()
}

/** The form field `token`. */
export function uploadToken(upload: SignedUpload): string {
  const { userId, sha1, size, time, appVersion, signKey, signValue } = upload
  const parts = [salt, sha1, size, signKey, signValue, userId, time, hexDigest('md5', userId), appVersion]
  return hexDigest('md5', parts.join(''))
}
