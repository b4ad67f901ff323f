/** New public keys in the form that users paste. */
import { generateKeyPairSync } from 'node:crypto'

/** One line of an authorized_keys file, with the key in the format of RFC 8709 §4. */
export function keyLine(): string {
  const { publicKey } = generateKeyPairSync('ed25519')
  const bytes = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)
  const blob = Buffer.concat([Buffer.from('\0\0\0\x0bssh-ed25519\0\0\0\x20', 'latin1'), bytes])
  return `ssh-ed25519 ${blob.toString('base64')} ann@laptop`
}
