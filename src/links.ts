import type { Path } from './path.js'
import type { Principal } from './principal.js'

export interface Links {
  /** Signature of a path of the whole tree: base64url HMAC, `:`, expiry. */
  sign(path: Path): string
  /** A principal that may read this one path. `unauthenticated` with the wire's words unless the signature fits. */
  verify(path: Path, signature: string | undefined): Principal
  /** The same without a signature: only where neither a setting, nor the storage, nor a rule asks for one; else `unauthenticated`. */
  open(path: Path, signature: string | undefined): Promise<Principal>
}
