/** The members of a ZIP archive, read one by one and within bounds. */
import { unzipSync } from 'fflate'
import { PreviewFailure } from './failure.ts'

const mostMembers = 20_000
/** The largest size of a member, and of all that are read, in bytes. */
const largestMember = 64 * 2 ** 20
const largestTotal = 256 * 2 ** 20
/** A member that is larger than this is refused if it is packed as no document is. */
const suspiciousSize = 8 * 2 ** 20
const highestRatio = 500

/** The first bytes of a compound file: an older format of Office, or a document with a password (MS-CFB 2.2). */
const compoundFile = [0xd0, 0xcf, 0x11, 0xe0]

export class Zip {
  readonly names: ReadonlySet<string>
  readonly #bytes: Uint8Array
  #total = 0

  /** Throws a `PreviewFailure` if it is not an archive that is accepted. */
  constructor(bytes: Uint8Array) {
    if (compoundFile.every((byte, index) => bytes[index] === byte)) throw new PreviewFailure('protected')
    this.#bytes = bytes
    const names = new Set<string>()
    this.#unzip(({ name }) => {
      if (names.size >= mostMembers) throw new PreviewFailure('tooLarge')
      names.add(name)
      return false
    })
    this.names = names
  }

  /** The content of a member; undefined if there is none of this name. Throws a `PreviewFailure`. */
  read(name: string): Uint8Array<ArrayBuffer> | undefined {
    if (!this.names.has(name)) return undefined
    let isFound = false
    const members = this.#unzip((member) => {
      // Of members of the same name the first is read.
      if (member.name !== name || isFound) return false
      isFound = true
      const { size, originalSize } = member
      this.#total += originalSize
      if (originalSize > largestMember || this.#total > largestTotal) throw new PreviewFailure('tooLarge')
      if (originalSize > suspiciousSize && originalSize > size * highestRatio) throw new PreviewFailure('tooLarge')
      return true
    })
    return members[name]
  }

  /** fflate writes no more than the size that the archive names. */
  #unzip(filter: (member: { name: string; size: number; originalSize: number }) => boolean) {
    try {
      return unzipSync(this.#bytes, { filter })
    } catch (error) {
      throw error instanceof PreviewFailure ? error : new PreviewFailure('damaged')
    }
  }
}

const top = 'https://archive.invalid/'

/** What an address in the member `base` names; undefined: nothing in the archive. `fragment`: its part after #. */
export function memberAt(
  address: string,
  base: string,
): { readonly member: string; readonly fragment: string } | undefined {
  try {
    const { origin, pathname, hash } = new URL(address, top + base.split('/').map(encodeURIComponent).join('/'))
    if (`${origin}/` !== top) return undefined
    return { member: decodeURIComponent(pathname.slice(1)), fragment: decodeURIComponent(hash.slice(1)) }
  } catch {
    return undefined
  }
}
