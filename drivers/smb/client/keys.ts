/** Keys of a session (MS-SMB2 §3.1.4.2, §3.2.5.3.1) and the hash of what was said before there were any (§3.2.5.2, §3.2.5.3). */
import { createHash, createHmac } from 'node:crypto'
import { dialects, type Dialect } from './dialects.js'

export interface SessionKeys {
  readonly signing: Buffer
  /** What the client sends, and what the server sends. */
  readonly encryption: Buffer
  readonly decryption: Buffer
}

/** `preauthentication`: the hash of the sign-in; 3.1.1 alone binds its keys to it. `cipherKeyLength` in bytes. */
export function sessionKeys(
  dialect: Dialect,
  sessionKey: Buffer,
  preauthentication: Buffer,
  cipherKeyLength: 16 | 32 = 16,
): SessionKeys {
  if (dialect < dialects.smb300) return { signing: sessionKey, encryption: sessionKey, decryption: sessionKey }
  if (dialect < dialects.smb311) {
    return {
      signing: derivedKey(sessionKey, 'SMB2AESCMAC', text('SmbSign')),
      // The blank belongs to it.
      encryption: derivedKey(sessionKey, 'SMB2AESCCM', text('ServerIn ')),
      decryption: derivedKey(sessionKey, 'SMB2AESCCM', text('ServerOut')),
    }
  }
  return {
    signing: derivedKey(sessionKey, 'SMBSigningKey', preauthentication),
    encryption: derivedKey(sessionKey, 'SMBC2SCipherKey', preauthentication, cipherKeyLength),
    decryption: derivedKey(sessionKey, 'SMBS2CCipherKey', preauthentication, cipherKeyLength),
  }
}

/** NIST SP 800-108 in counter mode over HMAC-SHA256, one round. */
function derivedKey(key: Buffer, label: string, context: Buffer, length = 16): Buffer {
  const counter = Buffer.from([0, 0, 0, 1])
  const bits = Buffer.alloc(4)
  bits.writeUInt32BE(length * 8)
  return createHmac('sha256', key)
    .update(Buffer.concat([counter, text(label), Buffer.alloc(1), context, bits]))
    .digest()
    .subarray(0, length)
}

function text(of: string): Buffer {
  return Buffer.from(`${of}\0`, 'latin1')
}

/** Grows with every message of the negotiation and the sign-in, but for the last answer. */
export class PreauthenticationHash {
  #value: Buffer = Buffer.alloc(64)

  get value(): Buffer {
    return this.#value
  }

  update(message: Buffer): void {
    this.#value = createHash('sha512').update(this.#value).update(message).digest()
  }
}
