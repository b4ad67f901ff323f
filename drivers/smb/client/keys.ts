/** Session keys (MS-SMB2 §3.1.4.2, §3.2.5.3.1) and the preauthentication integrity hash (§3.2.5.2, §3.2.5.3). */
import { createHash, createHmac } from 'node:crypto'

/** Dialect revisions of the protocol (MS-SMB2 §2.2.3). */
export const dialects = { smb210: 0x0210, smb300: 0x0300, smb302: 0x0302, smb311: 0x0311 } as const

export type Dialect = (typeof dialects)[keyof typeof dialects]

export const allDialects: readonly Dialect[] = Object.values(dialects)

export interface SessionKeys {
  readonly signing: Buffer
  /** `encryption` is for messages to the server, `decryption` for messages from it. */
  readonly encryption: Buffer
  readonly decryption: Buffer
}

/**
 * Derives the keys of a session. `preauthentication`: the integrity hash, used by dialect 3.1.1 only.
 * `cipherKeyLength`: in bytes.
 */
export function sessionKeys(
  dialect: Dialect,
  sessionKey: Buffer,
  preauthentication: Buffer,
  cipherKeyLength: 16 | 32 = 16,
): SessionKeys {
  if (dialect < dialects.smb300) return { signing: sessionKey, encryption: sessionKey, decryption: sessionKey }
  if (dialect < dialects.smb311) {
    return {
      signing: derivedKey(sessionKey, 'SMB2AESCMAC', terminated('SmbSign')),
      // The trailing space is part of the label.
      encryption: derivedKey(sessionKey, 'SMB2AESCCM', terminated('ServerIn ')),
      decryption: derivedKey(sessionKey, 'SMB2AESCCM', terminated('ServerOut')),
    }
  }
  return {
    signing: derivedKey(sessionKey, 'SMBSigningKey', preauthentication),
    encryption: derivedKey(sessionKey, 'SMBC2SCipherKey', preauthentication, cipherKeyLength),
    decryption: derivedKey(sessionKey, 'SMBS2CCipherKey', preauthentication, cipherKeyLength),
  }
}

/** NIST SP 800-108 KDF in counter mode with HMAC-SHA256, one iteration. `length` in bytes, at most 32. */
function derivedKey(key: Buffer, label: string, context: Buffer, length = 16): Buffer {
  const counter = Buffer.from([0, 0, 0, 1])
  const bits = Buffer.alloc(4)
  bits.writeUInt32BE(length * 8)
  return createHmac('sha256', key)
    .update(Buffer.concat([counter, terminated(label), Buffer.alloc(1), context, bits]))
    .digest()
    .subarray(0, length)
}

function terminated(text: string): Buffer {
  return Buffer.from(`${text}\0`, 'latin1')
}

/** Covers every message of the negotiation and the session setup except the final response. */
export class PreauthenticationHash {
  #value: Buffer = Buffer.alloc(64)

  get value(): Buffer {
    return this.#value
  }

  update(message: Buffer): void {
    this.#value = createHash('sha512').update(this.#value).update(message).digest()
  }
}
