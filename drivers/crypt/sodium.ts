/** XSalsa20-Poly1305 secret boxes. Uses the native package if it is installed, else WebAssembly. */
import type { DriverLog } from '../../src/base/log.js'

/** Size of the authentication tag at the start of a sealed block, in bytes. */
export const tagSize = 16

export interface SecretBox {
  /** `nonce`: 24 bytes, which must be unique for this key. */
  seal(plain: Buffer, nonce: Buffer, key: Buffer): Buffer
  /** Undefined if the block is not authentic under this nonce and key. */
  open(sealed: Buffer, nonce: Buffer, key: Buffer): Buffer | undefined
}

/** The functions of sodium-native that are used. */
interface NativeSodium {
  crypto_secretbox_easy(into: Buffer, plain: Buffer, nonce: Buffer, key: Buffer): void
  crypto_secretbox_open_easy(into: Buffer, sealed: Buffer, nonce: Buffer, key: Buffer): boolean
}

// Not a literal type: the package is optional, and the compiler must not resolve it.
const nativePackage = 'sodium-native' as string

let loading: Promise<SecretBox> | undefined

/** Loads an implementation, once for each process. */
export function secretBox(log: DriverLog): Promise<SecretBox> {
  loading ??= nativeSecretBox().catch((error: unknown) => {
    log.info({ err: error }, 'sodium-native is unavailable, using slower WebAssembly encryption')
    return wasmSecretBox()
  })
  return loading
}

/** The native implementation. Rejects if the package cannot be loaded. */
export async function nativeSecretBox(): Promise<SecretBox> {
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

/** The WebAssembly implementation, with about a fifth of the native speed. */
export async function wasmSecretBox(): Promise<SecretBox> {
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
