/**
 * The Crypt driver: encrypts names and contents and stores them in another path of the tree. No plaintext is stored.
 */
import { LRUCache } from 'lru-cache'
import { addAbortSignal, pipeline, type Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { Attributes, Thumbnail, ThumbnailKind, Usage } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, StatOptions, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv, TreeDriver } from '../../src/contract/driver-env.js'
import { pageSize, type Entry, type FileIdentity } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, hasDetail, isGatewayError } from '../../src/base/errors.js'
import { childOf, cleanPath, nameOf, parentOf, root, segmentsOf, type Path } from '../../src/base/path.js'
import {
  blockSize,
  ContentDecryption,
  encryptedSize,
  ContentEncryption,
  headerSize,
  nonceFromHeader,
  notEncrypted,
  plainSize,
  sealedBlockSize,
} from './content.js'
import type { CryptOptions } from './index.js'
import { namesOf, type Names } from './names.js'
import { keysOf, passwordOf, obscuredForm } from './passwords.js'
import { secretBox, type SecretBox } from './sodium.js'

/** Maximum number of cached nonces. With a cached nonce, reading a range takes one call instead of two. */
const maxNonces = 4096

/** Maximum size of a thumbnail, in bytes. */
const thumbnailLimit = 4 * 1024 * 1024

/** Rejects with `invalid` if an option is invalid. Passwords that are given in plaintext are saved in obscured form. */
export async function openCrypt(options: CryptOptions, env: DriverEnv): Promise<Driver> {
  const keys = await keysOf(passwordOf(options.password), passwordOf(options.salt))
  const names = namesOf(options, keys)
  const driver = new CryptDriver({
    tree: env.tree(cleanPath(options.remote_path), (member) => plainPaths(names, member)),
    names,
    box: await secretBox(env.log),
    key: keys.data,
    thumbnails: options.thumbnail,
    showHidden: options.show_hidden,
  })
  const changed = { password: obscuredForm(options.password), salt: obscuredForm(options.salt) }
  const toStore = Object.entries(changed).filter(([, value]) => value !== undefined)
  if (toStore.length > 0) await env.save(Object.fromEntries(toStore))
  return driver
}

interface CryptDependencies {
  readonly tree: TreeDriver
  readonly names: Names
  readonly box: SecretBox
  /** The key for contents, 32 bytes. */
  readonly key: Buffer
  /** Whether thumbnails are stored in `.thumbnails` beside the files. */
  readonly thumbnails: boolean
  readonly showHidden: boolean
}

/** An entry of the underlying tree, and its encrypted path. */
interface Located {
  readonly at: Path
  readonly entry: Entry
}

class CryptDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly #tree: TreeDriver
  readonly #names: Names
  /** Cached nonces by encrypted path. Decryption with a stale nonce fails, so it is detected. */
  readonly #nonces = new LRUCache<Path, Buffer>({ maxSize: maxNonces, sizeCalculation: () => 1 })

  constructor(private readonly dependencies: CryptDependencies) {
    this.#tree = dependencies.tree
    this.#names = dependencies.names
    this.traits = { thumbnails: dependencies.thumbnails ? ['image', 'video'] : [] }
  }

  // Reading

  async stat(path: Path, options: StatOptions = {}): Promise<Entry> {
    const { entry } = await this.#require(path, options)
    return this.#plain(path, entry)
  }

  async *pages(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    throwIfAborted(options.signal)
    let page: Entry[] = []
    let readable = 0
    let undecryptable = 0
    for await (const entries of this.#pages(path, options)) {
      for (const entry of entries) {
        const decrypted = this.#nameOf(entry)
        if ('unreadable' in decrypted) {
          if (decrypted.unreadable === 'other key') undecryptable++
          continue
        }
        readable++
        if (!this.dependencies.showHidden && decrypted.name.startsWith('.')) continue
        page.push(plainEntry(decrypted.name, entry))
        if (page.length < pageSize) continue
        yield page
        throwIfAborted(options.signal)
        page = []
      }
    }
    if (readable === 0 && undecryptable > 0) {
      const reason = 'none of the names here can be decrypted: the password, the salt or the encoding is wrong'
      throw new GatewayError('unavailable', { reason })
    }
    if (page.length > 0) yield page
  }

  async *#pages(path: Path, options: CallOptions): AsyncGenerator<readonly Entry[]> {
    try {
      yield* this.#tree.pages(this.#folder(path), options)
    } catch (error) {
      if (isGatewayError(error, 'not_found') && (await this.#file(path, options))) {
        throw new GatewayError('not_folder', { cause: error })
      }
      throw error
    }
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, options: CallOptions = {}): Promise<Readable> {
    throwIfAborted(options.signal)
    const at = this.#fileAt(path)
    try {
      return await (range.offset === 0 || range.length === 0
        ? this.#readFromStart(at, range.length, options)
        : this.#readFrom(at, range, options))
    } catch (error) {
      if (isGatewayError(error, 'not_found') && (await this.#folderBeside(path, options))) {
        throw new GatewayError('is_folder')
      }
      throw error
    }
  }

  async #readFromStart(at: Path, length: number | undefined, options: CallOptions): Promise<Readable> {
    const blocks = length === undefined ? undefined : Math.ceil(length / blockSize)
    const range = blocks === undefined ? undefined : { offset: 0, length: headerSize + blocks * sealedBlockSize }
    const sealed = await this.#tree.read(at, range, options)
    const plain = await this.#decrypted(sealed, { block: 0, skip: 0, length: length ?? Infinity }, options)
    this.#nonces.set(at, await plain.started)
    return plain
  }

  async #readFrom(at: Path, range: ByteRange, options: CallOptions): Promise<Readable> {
    const cachedNonce = this.#nonces.get(at)
    if (cachedNonce) {
      try {
        return await this.#readBlocks(at, range, cachedNonce, options)
      } catch (error) {
        if (!hasDetail(error, 'wrong_key')) throw error
      }
    }
    // The file may have been replaced after its header was read. The second attempt reads the new header.
    for (let attempt = 0; ; attempt++) {
      const header = await buffer(await this.#tree.read(at, { offset: 0, length: headerSize }, options))
      const nonce = nonceFromHeader(header)
      if (!nonce) throw notEncrypted()
      this.#nonces.set(at, nonce)
      try {
        return await this.#readBlocks(at, range, nonce, options)
      } catch (error) {
        if (!hasDetail(error, 'wrong_key') || attempt > 0) throw error
      }
    }
  }

  async #readBlocks(at: Path, range: ByteRange, nonce: Buffer, options: CallOptions): Promise<Readable> {
    const { offset, length = Infinity } = range
    const block = Math.floor(offset / blockSize)
    const skip = offset - block * blockSize
    const sealed = await this.#tree.read(
      at,
      {
        offset: headerSize + block * sealedBlockSize,
        length: length === Infinity ? undefined : Math.ceil((skip + length) / blockSize) * sealedBlockSize,
      },
      options,
    )
    return this.#decrypted(sealed, { nonce, block, skip, length }, options)
  }

  /** Resolves once the first block was decrypted. */
  async #decrypted(
    sealed: Readable,
    plan: { readonly nonce?: Buffer; readonly block: number; readonly skip: number; readonly length: number },
    { signal }: CallOptions,
  ): Promise<ContentDecryption> {
    const { box, key } = this.dependencies
    const plain = new ContentDecryption({ box, key, ...plan })
    if (signal) addAbortSignal(signal, plain)
    // Errors are emitted by the stream.
    pipeline(sealed, plain, () => undefined)
    await plain.started
    return plain
  }

  async thumbnail(path: Path, _kind: ThumbnailKind, options: CallOptions = {}): Promise<Thumbnail> {
    const folder = childOf(parentOf(path), '.thumbnails')
    try {
      const stream = await this.read(
        childOf(folder, `${nameOf(path)}.webp`),
        { offset: 0, length: thumbnailLimit },
        options,
      )
      return { type: 'image/webp', bytes: await buffer(stream) }
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'is_folder')) throw new GatewayError('unsupported', { cause: error })
      throw error
    }
  }

  usage(options?: CallOptions): Promise<Usage> {
    return this.#tree.usage(options)
  }

  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    if (path === root) return path
    const located = await this.#find(path, options)
    const at = located?.at ?? this.#fileAt(path)
    const segments = segmentsOf(await this.#tree.realPath(at, options))
    const isFolder = located?.entry.kind === 'folder'
    return segments.reduce<Path>((plain, segment, index) => {
      const asFolder = isFolder || index < segments.length - 1
      const decrypted = asFolder ? this.#names.plainFolder(segment) : this.#names.plainFile(segment)
      if ('unreadable' in decrypted)
        throw new GatewayError('denied', { reason: 'a symlink to a path that is not encrypted' })
      return childOf(plain, decrypted.name)
    }, root)
  }

  async identities(path: Path, options: CallOptions = {}): Promise<readonly FileIdentity[]> {
    const { at } = await this.#require(path, options)
    return this.#tree.identities(at, options)
  }

  // Changing

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    throwIfAborted(options.signal)
    if (await this.#folderBeside(path, options)) throw new GatewayError('is_folder')
    const entry = await this.#tree.write(this.#fileAt(path), this.#encrypted(source), options)
    return this.#plain(path, entry)
  }

  #encrypted(source: Source): Source {
    const { size, modified } = source
    const { box, key } = this.dependencies
    return {
      size: size === undefined ? undefined : encryptedSize(size),
      modified,
      rereadable: false,
      read: async (_range, options) => {
        const sealed = new ContentEncryption(box, key, size)
        // Errors are emitted by the stream.
        pipeline(await source.read(undefined, options), sealed, () => undefined)
        return sealed
      },
    }
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    if (await this.#fileBeside(path, options)) throw new GatewayError('exists')
    await this.#tree.mkdir(this.#folder(path), options)
  }

  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    const { at } = await this.#removable(path, options)
    await this.#tree.remove(at, options)
  }

  async removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    const { at } = await this.#removable(path, options)
    await this.#tree.removeTree(at, options)
  }

  #removable(path: Path, options: CallOptions): Promise<Located> {
    return this.#require(path, { ...options, ofSymlink: true })
  }

  async move(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    const { at, entry } = await this.#removable(from, options)
    const asFolder = entry.kind === 'folder' || (entry.kind === 'symlink' && at !== this.#fileAt(from))
    if (asFolder && (await this.#fileBeside(to, options))) throw new GatewayError('exists')
    if (!asFolder && (await this.#folderBeside(to, options))) throw new GatewayError('is_folder')
    await this.#tree.move(at, asFolder ? this.#folder(to) : this.#fileAt(to), options)
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { at, entry } = await this.#require(from, options)
    if (entry.kind === 'folder' || (await this.#folderBeside(to, options))) {
      throw new GatewayError('is_folder')
    }
    await this.#tree.copy(at, this.#fileAt(to), options)
  }

  async setAttributes(path: Path, to: Attributes, options: CallOptions = {}): Promise<void> {
    const { at } = await this.#require(path, options)
    await this.#tree.setAttributes(at, to, options)
  }

  // Encrypted paths

  #folder(path: Path): Path {
    return segmentsOf(path).reduce<Path>((at, name) => childOf(at, this.#names.folder(name)), root)
  }

  #fileAt(path: Path): Path {
    return childOf(this.#folder(parentOf(path)), this.#names.file(nameOf(path)))
  }

  async #require(path: Path, options: StatOptions): Promise<Located> {
    const located = await this.#find(path, options)
    if (!located) throw new GatewayError('not_found')
    return located
  }

  /** Looks up a path. The encrypted path of a file and of a folder may differ. */
  async #find(path: Path, options: StatOptions): Promise<Located | undefined> {
    throwIfAborted(options.signal)
    if (path === root) return { at: root, entry: await this.#tree.stat(root, options) }
    if (this.#fileAt(path) === this.#folder(path)) return this.#locate(this.#folder(path), options)
    // A heuristic to save a call: most file names contain a dot, most folder names do not.
    return nameOf(path).includes('.')
      ? ((await this.#file(path, options)) ?? (await this.#folderBeside(path, options)))
      : ((await this.#folderBeside(path, options)) ?? (await this.#file(path, options)))
  }

  async #file(path: Path, options: StatOptions): Promise<Located | undefined> {
    if (path === root) return undefined
    const located = await this.#locate(this.#fileAt(path), options)
    return located?.entry.kind === 'folder' ? undefined : located
  }

  /**
   * The file with this name, if its encrypted path differs from that of a folder. If they are equal, the backend
   * detects the conflict.
   */
  async #fileBeside(path: Path, options: CallOptions): Promise<Located | undefined> {
    return this.#fileAt(path) === this.#folder(path) ? undefined : this.#file(path, { ...options, ofSymlink: true })
  }

  /** The folder with this name, if its encrypted path differs from that of a file. */
  async #folderBeside(path: Path, options: StatOptions): Promise<Located | undefined> {
    const at = this.#folder(path)
    if (at === this.#fileAt(path)) return undefined
    const located = await this.#locate(at, options)
    return located?.entry.kind === 'file' ? undefined : located
  }

  async #locate(at: Path, options: StatOptions): Promise<Located | undefined> {
    try {
      return { at, entry: await this.#tree.stat(at, options) }
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    }
  }

  /** The decrypted entry. Its name is the one that the backend reports, if that can be decrypted. */
  #plain(path: Path, entry: Entry): Entry {
    if (path === root) return plainEntry('', entry)
    const decrypted = this.#nameOf(entry)
    return plainEntry('name' in decrypted ? decrypted.name : nameOf(path), entry)
  }

  #nameOf(entry: Entry) {
    return entry.kind === 'folder' ? this.#names.plainFolder(entry.name) : this.#names.plainFile(entry.name)
  }
}

/** The paths of a file and of a folder with this encrypted path, where they can be decrypted. */
function plainPaths(names: Names, encrypted: Path): readonly Path[] {
  if (encrypted === root) return [root]
  let folder: Path = root
  for (const segment of segmentsOf(parentOf(encrypted))) {
    const decrypted = names.plainFolder(segment)
    if ('unreadable' in decrypted) return []
    folder = childOf(folder, decrypted.name)
  }
  const last = nameOf(encrypted)
  const paths = [names.plainFile(last), names.plainFolder(last)]
  return [...new Set(paths.flatMap((each) => ('name' in each ? [childOf(folder, each.name)] : [])))]
}

/** Hashes and thumbnails are left out: they are those of the encrypted content. */
function plainEntry(name: string, { kind, size, modified, revision, mode, created, isSymlink }: Entry): Entry {
  return {
    name,
    kind,
    size: kind === 'file' ? (plainSize(size) ?? 0) : 0,
    modified,
    ...(revision !== undefined && { revision }),
    ...(mode !== undefined && { mode }),
    ...(created !== undefined && { created }),
    ...(isSymlink !== undefined && { isSymlink }),
  }
}
