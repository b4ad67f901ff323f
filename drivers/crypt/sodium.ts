/** XSalsa20-Poly1305, at native speed where the package for it is installed. */
import type { DriverLog } from '../../src/driver.js'

/** Bytes by which a sealed block is longer: its tag, which stands first. */
export const tagSize = 16

export interface SecretBox {
  /** `nonce`: 24 bytes that were never used before with this key. */
  seal(plain: Buffer, nonce: Buffer, key: Buffer): Buffer
  /** Undefined where the block is not what was sealed with this nonce and key. */
  open(sealed: Buffer, nonce: Buffer, key: Buffer): Buffer | undefined
}

/** What is used of sodium-native. */
interface NativeSodium {
  crypto_secretbox_easy(into: Buffer, plain: Buffer, nonce: Buffer, key: Buffer): void
  crypto_secretbox_open_easy(into: Buffer, sealed: Buffer, nonce: Buffer, key: Buffer): boolean
}

// Not a literal: the package is optional, and nothing is to fail to compile without it.
const nativePackage = 'sodium-native' as string

let loading: Promise<SecretBox> | undefined

export function secretBox(log: DriverLog): Promise<SecretBox> {
  loading ??= native().catch((error: unknown) => {
    log.info({ err: error }, 'sodium-native is not installed, or does not work here: encryption is slower')
    return compiled()
  })
  return loading
}

export async function native(): Promise<SecretBox> {
  const { default: sodium } = (await import(nativePackage)) as { readonly default: NativeSodium }
  return {
    seal(plain, nonce, key) {
      const sealed = Buffer.allocUnsafe(plain.length + tagSize)
      sodium.crypto_secretbox_easy(sealed, plain, nonce, key)
      return sealed
    },
    open(sealed, nonce, key) {
      const plain = Buffer.allocUnsafe(sealed.length - tagSize)
      return sodium.crypto_secretbox_open_easy(plain, sealed, nonce, key) ? plain : undefined
    },
  }
}

/** The same library as WebAssembly: about a fifth of the speed. */
export async function compiled(): Promise<SecretBox> {
  const { default: sodium } = await import('libsodium-wrappers')
  await sodium.ready
  const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array) => Buffer.from(buffer, byteOffset, byteLength)
  return {
    seal: (plain, nonce, key) => bufferOf(sodium.crypto_secretbox_easy(plain, nonce, key)),
    open(sealed, nonce, key) {
      try {
        return bufferOf(sodium.crypto_secretbox_open_easy(sealed, nonce, key))
      } catch {
        return undefined
      }
    },
  }
}
