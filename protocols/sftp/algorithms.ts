/**
 * Algorithms that the server offers: none with SHA-1, CBC, MAC-then-encrypt or NIST curves. Strict key exchange is
 * always on in ssh2 (ssh2: lib/server.js).
 */
import { createRequire } from 'node:module'
import type { Algorithms, ParsedKey } from 'ssh2'

/** Whether the ciphers run in the native part of ssh2. Otherwise they run in JavaScript, which is slower. */
export function usesNativeCiphers(): boolean {
  const ciphers = createRequire(import.meta.url)('ssh2/lib/protocol/crypto.js') as {
    readonly bindingAvailable: boolean
  }
  return ciphers.bindingAvailable
}

export const algorithms: Algorithms = {
  kex: [
    'curve25519-sha256',
    'curve25519-sha256@libssh.org',
    // Not group16 and group18, which take a multiple of the time of the others, before anybody has signed in.
    'diffie-hellman-group14-sha256',
  ],
  serverHostKey: ['ssh-ed25519', 'rsa-sha2-512', 'rsa-sha2-256'],
  cipher: [
    'aes128-gcm@openssh.com',
    'aes256-gcm@openssh.com',
    'chacha20-poly1305@openssh.com',
    'aes128-ctr',
    'aes192-ctr',
    'aes256-ctr',
  ],
  hmac: [
    'hmac-sha2-256-etm@openssh.com',
    'hmac-sha2-512-etm@openssh.com',
    // Encrypt-and-MAC, for libssh2 before 1.11, which supports nothing better (libssh2/libssh2#987). Many systems use
    // it for curl and PHP.
    'hmac-sha2-256',
    'hmac-sha2-512',
  ],
  compress: ['none'],
}

/**
 * Returns `key` once for each algorithm to offer. For a key of type `ssh-rsa`, ssh2 would also offer SHA-1, regardless
 * of the configured list. With the algorithm as its type, ssh2 offers only that one (ssh2: lib/server.js).
 */
export function hostKeyOffers(key: ParsedKey): readonly ParsedKey[] {
  if (key.type !== 'ssh-rsa') return [key]
  return ['rsa-sha2-512', 'rsa-sha2-256'].map((type) => Object.create(key, { type: { value: type } }) as ParsedKey)
}
