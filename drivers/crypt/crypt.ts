/** A tree whose names and contents are encrypted in another one. Nothing is kept of either in clear. */
import { addAbortSignal, pipeline, type Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { assertGoing } from '../../src/aborting.js'
import type {
  Attributes,
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  Identity,
  Source,
  Thumbnail,
  ThumbnailKind,
  Traits,
  Usage,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { childOf, cleanPath, nameOf, parentOf, root, segmentsOf, type Path } from '../../src/path.js'
import {
  blockSize,
  Decryption,
  encryptedSize,
  Encryption,
  headerSize,
  nonceIn,
  NotEncryptedError,
  plainSize,
  sealedSize,
  WrongKeyError,
} from './content.js'
import type { CryptOptions } from './index.js'
import { namesOf, type Names } from './names.js'
import { keysOf, passwordOf, storedForm } from './passwords.js'
import { secretBox, type SecretBox } from './sodium.js'

/** Entries in one page of a listing. */
const pageSize = 1000

/** Files whose nonce is remembered, so that each further range of them costs one call. */
const noncesKept = 4096

/** Bytes of a thumbnail. */
const thumbnailLimit = 4 * 1024 * 1024

/** Rejects with `invalid` where an option makes no sense. Passwords that came in clear are stored obscured. */
export async function openCrypt(options: CryptOptions, env: DriverEnv): Promise<Driver> {
  const keys = await keysOf(passwordOf(options.password), passwordOf(options.salt))
  const driver = new CryptDriver({
    tree: env.tree(cleanPath(options.remote_path)),
    names: namesOf(options, keys),
    box: await secretBox(env.log),
    key: keys.data,
    thumbnails: options.thumbnail,
    showHidden: options.show_hidden,
  })
  const changed = { password: storedForm(options.password), salt: storedForm(options.salt) }
  const toStore = Object.entries(changed).filter(([, value]) => value !== undefined)
  if (toStore.length > 0) await env.save(Object.fromEntries(toStore))
  return driver
}

export interface CryptParts {
  readonly tree: Driver
  readonly names: Names
  readonly box: SecretBox
  /** Of contents. */
  readonly key: Buffer
  /** Whether thumbnails lie beside the files. */
  readonly thumbnails: boolean
  readonly showHidden: boolean
}

/** Where something is kept: its encrypted path, and what it is. */
interface Kept {
  readonly at: Path
  readonly entry: Entry
}

export class CryptDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly #tree: Driver
  readonly #names: Names
  /** By encrypted path. One that is out of date is noticed, as nothing can be decrypted with it. */
  readonly #nonces = new Map<Path, Buffer>()

  constructor(private readonly parts: CryptParts) {
    this.#tree = parts.tree
    this.#names = parts.names
    this.traits = { thumbnails: parts.thumbnails ? ['image', 'video'] : [] }
  }

  // Reading

  async stat(path: Path, options: CallOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    const { entry } = await this.#existing(path, options)
    return this.#plain(path, entry)
  }

  async *list(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    assertGoing(options.signal)
    let page: Entry[] = []
    let readable = 0
    let otherKey = 0
    for await (const kept of this.#pages(path, options)) {
      for (const entry of kept) {
        const found = this.#nameOf(entry)
        if ('unreadable' in found) {
          if (found.unreadable === 'other key') otherKey++
          continue
        }
        readable++
        if (!this.parts.showHidden && found.name.startsWith('.')) continue
        page.push(plainEntry(found.name, entry))
        if (page.length < pageSize) continue
        yield page
        assertGoing(options.signal)
        page = []
      }
    }
    if (readable === 0 && otherKey > 0) {
      const reason = 'none of the names here can be decrypted: the password, the salt or the encoding is wrong'
      throw new GatewayError('unavailable', { reason })
    }
    if (page.length > 0) yield page
  }

  async *#pages(path: Path, options: CallOptions): AsyncGenerator<readonly Entry[]> {
    try {
      yield* this.#tree.list(this.#folder(path), options)
    } catch (error) {
      if (isGatewayError(error, 'not_found') && (await this.#file(path, options))) throw new GatewayError('not_dir')
      throw error
    }
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, options: CallOptions = {}): Promise<Readable> {
    assertGoing(options.signal)
    if (path === root) throw new GatewayError('is_dir')
    const at = this.#fileAt(path)
    try {
      return await (range.offset === 0 || range.length === 0
        ? this.#readFromStart(at, range.length, options)
        : this.#readFrom(at, range, options))
    } catch (error) {
      if (isGatewayError(error, 'not_found') && (await this.#folderBeside(path, options))) {
        throw new GatewayError('is_dir')
      }
      throw error
    }
  }

  async #readFromStart(at: Path, length: number | undefined, options: CallOptions): Promise<Readable> {
    const blocks = length === undefined ? undefined : Math.ceil(length / blockSize)
    const range = blocks === undefined ? undefined : { offset: 0, length: headerSize + blocks * sealedSize }
    const sealed = await this.#tree.read(at, range, options)
    const plain = await this.#decrypted(sealed, { block: 0, skip: 0, length: length ?? Infinity }, options)
    this.#remember(at, await plain.started)
    return plain
  }

  async #readFrom(at: Path, range: ByteRange, options: CallOptions): Promise<Readable> {
    const remembered = this.#nonces.get(at)
    if (remembered) {
      try {
        return await this.#readBlocks(at, range, remembered, options)
      } catch (error) {
        if (!(error instanceof WrongKeyError)) throw error
      }
    }
    // Where the file was replaced after its header was read, the nonce is that of another one: the second try has the new one.
    for (let tries = 0; ; tries++) {
      const header = await buffer(await this.#tree.read(at, { offset: 0, length: headerSize }, options))
      const nonce = nonceIn(header)
      if (!nonce) throw new NotEncryptedError()
      this.#remember(at, nonce)
      try {
        return await this.#readBlocks(at, range, nonce, options)
      } catch (error) {
        if (!(error instanceof WrongKeyError) || tries > 0) throw error
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
        offset: headerSize + block * sealedSize,
        length: length === Infinity ? undefined : Math.ceil((skip + length) / blockSize) * sealedSize,
      },
      options,
    )
    return this.#decrypted(sealed, { nonce, block, skip, length }, options)
  }

  /** Settles when the first block proved to be right. */
  async #decrypted(
    sealed: Readable,
    plan: { readonly nonce?: Buffer; readonly block: number; readonly skip: number; readonly length: number },
    { signal }: CallOptions,
  ): Promise<Decryption> {
    const { box, key } = this.parts
    const plain = new Decryption({ box, key, ...plan })
    if (signal) addAbortSignal(signal, plain)
    // What goes wrong is told by the stream itself.
    pipeline(sealed, plain, () => undefined)
    await plain.started
    return plain
  }

  #remember(at: Path, nonce: Buffer): void {
    this.#nonces.delete(at)
    this.#nonces.set(at, nonce)
    const [oldest] = this.#nonces.keys()
    if (this.#nonces.size > noncesKept && oldest !== undefined) this.#nonces.delete(oldest)
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
      if (isGatewayError(error, 'not_found', 'is_dir')) throw new GatewayError('unsupported', { cause: error })
      throw error
    }
  }

  async usage(options?: CallOptions): Promise<Usage> {
    if (!this.#tree.usage) throw new GatewayError('unsupported')
    return this.#tree.usage(options)
  }

  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    if (path === root || !this.#tree.realPath) return path
    const kept = await this.#find(path, options)
    const at = kept?.at ?? this.#fileAt(path)
    const segments = segmentsOf(await this.#tree.realPath(at, options))
    const isFolder = kept?.entry.kind === 'folder'
    return segments.reduce<Path>((plain, segment, index) => {
      const asFolder = isFolder || index < segments.length - 1
      const found = asFolder ? this.#names.plainFolder(segment) : this.#names.plainFile(segment)
      if ('unreadable' in found) throw new GatewayError('denied', { reason: 'a link to what is not encrypted' })
      return childOf(plain, found.name)
    }, root)
  }

  async identities(path: Path, options: CallOptions = {}): Promise<readonly Identity[]> {
    const { at } = await this.#existing(path, options)
    return (await this.#tree.identities?.(at, options)) ?? []
  }

  // Changing

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    assertGoing(options.signal)
    if (path === root || (await this.#folderBeside(path, options))) throw new GatewayError('is_dir')
    const entry = await this.#tree.write?.(this.#fileAt(path), this.#encrypted(source), options)
    if (!entry) throw readOnly()
    return this.#plain(path, entry)
  }

  #encrypted(source: Source): Source {
    const { size, modified } = source
    const { box, key } = this.parts
    return {
      size: size === undefined ? undefined : encryptedSize(size),
      modified,
      rereadable: false,
      read: async (_range, options) => {
        const sealed = new Encryption(box, key, size)
        // What goes wrong is told by the stream itself.
        pipeline(await source.read(undefined, options), sealed, () => undefined)
        return sealed
      },
    }
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    assertGoing(options.signal)
    if (path === root || (await this.#fileBeside(path, options))) throw new GatewayError('exists')
    if (!this.#tree.mkdir) throw readOnly()
    await this.#tree.mkdir(this.#folder(path), options)
  }

  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    const { at } = await this.#removable(path, options)
    if (!this.#tree.remove) throw readOnly()
    await this.#tree.remove(at, options)
  }

  async removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    const { at } = await this.#removable(path, options)
    if (!this.#tree.removeTree) throw new GatewayError('unsupported')
    await this.#tree.removeTree(at, options)
  }

  #removable(path: Path, options: CallOptions): Promise<Kept> {
    if (path === root) throw new GatewayError('denied', { reason: 'the root of a storage stays' })
    return this.#existing(path, { ...options, link: true })
  }

  async move(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    const { at, entry } = await this.#removable(from, options)
    if (from === to) return
    if (to === root) throw new GatewayError('is_dir')
    const asFolder = entry.kind === 'folder' || (entry.kind === 'link' && at !== this.#fileAt(from))
    if (asFolder && (await this.#fileBeside(to, options))) throw new GatewayError('exists')
    if (!asFolder && (await this.#folderBeside(to, options))) throw new GatewayError('is_dir')
    if (!this.#tree.move) throw new GatewayError('unsupported')
    await this.#tree.move(at, asFolder ? this.#folder(to) : this.#fileAt(to), options)
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { at, entry } = await this.#existing(from, options)
    if (entry.kind === 'folder' || to === root || (await this.#folderBeside(to, options))) {
      throw new GatewayError('is_dir')
    }
    if (!this.#tree.copy) throw new GatewayError('unsupported')
    await this.#tree.copy(at, this.#fileAt(to), options)
  }

  async setAttributes(path: Path, to: Attributes, options: CallOptions = {}): Promise<void> {
    const { at } = await this.#existing(path, options)
    if (!this.#tree.setAttributes) throw new GatewayError('unsupported')
    await this.#tree.setAttributes(at, to, options)
  }

  // Where things are kept

  #folder(path: Path): Path {
    return segmentsOf(path).reduce<Path>((at, name) => childOf(at, this.#names.folder(name)), root)
  }

  #fileAt(path: Path): Path {
    return childOf(this.#folder(parentOf(path)), this.#names.file(nameOf(path)))
  }

  async #existing(path: Path, options: CallOptions & { readonly link?: boolean | undefined }): Promise<Kept> {
    const kept = await this.#find(path, options)
    if (!kept) throw new GatewayError('not_found')
    return kept
  }

  /** What has this name; a file and a folder may have to be looked for at different places. */
  async #find(path: Path, options: CallOptions & { readonly link?: boolean | undefined }): Promise<Kept | undefined> {
    assertGoing(options.signal)
    if (path === root) return { at: root, entry: await this.#tree.stat(root, options) }
    if (this.#fileAt(path) === this.#folder(path)) return this.#kept(this.#folder(path), options)
    // Most files have a dot in their names, and most folders have none.
    return nameOf(path).includes('.')
      ? ((await this.#file(path, options)) ?? (await this.#folderBeside(path, options)))
      : ((await this.#folderBeside(path, options)) ?? (await this.#file(path, options)))
  }

  async #file(path: Path, options: CallOptions & { readonly link?: boolean | undefined }): Promise<Kept | undefined> {
    if (path === root) return undefined
    const kept = await this.#kept(this.#fileAt(path), options)
    return kept?.entry.kind === 'folder' ? undefined : kept
  }

  /** A file that stands where no folder of this name would; elsewhere the backend itself tells of it. */
  async #fileBeside(path: Path, options: CallOptions): Promise<Kept | undefined> {
    return this.#fileAt(path) === this.#folder(path) ? undefined : this.#file(path, { ...options, link: true })
  }

  /** The same for a folder that stands where no file of this name would. */
  async #folderBeside(
    path: Path,
    options: CallOptions & { readonly link?: boolean | undefined },
  ): Promise<Kept | undefined> {
    const at = this.#folder(path)
    if (at === this.#fileAt(path)) return undefined
    const kept = await this.#kept(at, options)
    return kept?.entry.kind === 'file' ? undefined : kept
  }

  async #kept(at: Path, options: CallOptions & { readonly link?: boolean | undefined }): Promise<Kept | undefined> {
    try {
      return { at, entry: await this.#tree.stat(at, options) }
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    }
  }

  /** An entry as it is shown, under the name that the backend has for it where that can be read. */
  #plain(path: Path, entry: Entry): Entry {
    if (path === root) return plainEntry('', entry)
    const found = this.#nameOf(entry)
    return plainEntry('name' in found ? found.name : nameOf(path), entry)
  }

  #nameOf(entry: Entry) {
    return entry.kind === 'folder' ? this.#names.plainFolder(entry.name) : this.#names.plainFile(entry.name)
  }
}

/** Hashes and pictures of what is encrypted are nobody's business. */
function plainEntry(name: string, { kind, size, modified, revision, mode, created, isLink }: Entry): Entry {
  return {
    name,
    kind,
    size: kind === 'file' ? (plainSize(size) ?? 0) : 0,
    modified,
    ...(revision !== undefined && { revision }),
    ...(mode !== undefined && { mode }),
    ...(created !== undefined && { created }),
    ...(isLink !== undefined && { isLink }),
  }
}

function readOnly(): GatewayError {
  return new GatewayError('unsupported', { reason: 'the storage below is read-only' })
}
