/**
 * A bucket as a tree. Folders are what the keys below them start with; an empty object, the marker, keeps one that is empty.
 * Where a file and a folder have one name, the file is the one that is seen.
 */
import {
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type HeadObjectCommandOutput,
} from '@aws-sdk/client-s3'
import mimeTypes from 'mime-types'
import { Readable } from 'node:stream'
import { assertGoing } from '../../src/aborting.js'
import type {
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  Link,
  ListOptions,
  Source,
  Traits,
  Upload,
  UploadPlan,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { nameOf, parentOf, type Path } from '../../src/path.js'
import { Bodies } from '../lib/bodies.js'
import { BucketClient, addressOf } from './client.js'
import { copyLimits, copyObject, type CopyLimits } from './copying.js'
import { translated } from './errors.js'
import type { S3Options } from './index.js'
import { entryName, fileEntry, folderEntry, givenTime, Keys, metadataOf } from './keys.js'
import { dropUpload, KeptUpload } from './kept-upload.js'
import { linkTo } from './links.js'
import { pages, type ListedObject } from './listing.js'
import { Turns } from '../lib/turns.js'
import { taking, upload, type Target } from './upload.js'

/** Files of a listing that are asked for their times at once. */
const parallelTimes = 32

/** Rejects where the settings make no sense, or the bucket cannot be listed with them. */
export async function openS3(options: S3Options, env: DriverEnv, limits: CopyLimits = copyLimits): Promise<Driver> {
  if (options.sign_url_expire < 0)
    throw new GatewayError('invalid', { reason: 'the field sign_url_expire is negative' })
  if (options.placeholder.includes('/')) {
    throw new GatewayError('invalid', { reason: 'the field placeholder must be a name' })
  }
  if (options.custom_host !== '') addressOf(options.custom_host, 'custom_host')
  const driver = new S3Driver(options, env, limits)
  try {
    await driver.check(env.signal)
  } catch (error) {
    await driver.close()
    throw error
  }
  return driver
}

class S3Driver implements Driver {
  readonly traits: Partial<Traits>
  readonly #client: BucketClient
  readonly #keys: Keys
  readonly #bodies = new Bodies('S3 server', translated)
  readonly #publishing = new Turns()
  readonly #since = new Date()
  readonly #close = () => {
    this.#client.close()
    this.#bodies.close()
  }

  constructor(
    private readonly options: S3Options,
    private readonly env: DriverEnv,
    private readonly limits: CopyLimits,
  ) {
    this.traits = { timeStep: options.keep_times ? 1 : Number.POSITIVE_INFINITY }
    this.#client = new BucketClient(options)
    this.#keys = new Keys(options.root_folder_path, options.placeholder === '' ? '.openlist' : options.placeholder)
    env.signal.addEventListener('abort', this.#close, { once: true })
  }

  async close(): Promise<void> {
    this.env.signal.removeEventListener('abort', this.#close)
    this.#close()
  }

  /** One request that needs the address, the bucket, the credentials and the right to list. */
  async check(signal: AbortSignal): Promise<void> {
    await this.#keysBelow(this.#keys.folder('/' as Path), 1, signal)
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    const head = await this.#find(path, signal)
    if (head === undefined) throw new GatewayError('not_found')
    if (head === 'folder') return folderEntry(entryName(path), this.#since)
    return this.#entry(path, head)
  }

  async *list(path: Path, { signal }: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    const prefix = this.#keys.folder(path)
    let isFolder = path === '/'
    /** Files that a folder of the same name may follow: it is not seen. */
    let files: string[] = []
    const request = { prefix, version: this.options.list_object_version, delimiter: '/', signal } as const
    for await (const { objects, prefixes } of pages(this.#client, request)) {
      if (!isFolder && objects.length === 0 && prefixes.length === 0) continue
      isFolder = true
      const found = objects.filter(
        ({ Key }) => !this.#keys.isMarker(Key, prefix) && Key.slice(prefix.length) !== this.#keys.placeholder,
      )
      files.push(...found.map(({ Key }) => Key.slice(prefix.length)))
      const hidden = new Set(files)
      const folders = prefixes
        .map((key) => key.slice(prefix.length, -1))
        .filter((name) => !hidden.has(name) && name !== this.#keys.placeholder)
      const last = [objects.at(-1)?.Key, prefixes.at(-1)].map((key) => key?.slice(prefix.length))
      files = files.filter((name) => last.some((key) => key?.startsWith(name)))
      const entries = [
        ...(await this.#listedFiles(found, prefix, signal)),
        ...folders.map((name) => folderEntry(name, this.#since)),
      ]
      if (entries.length > 0) yield entries
    }
    if (isFolder) return
    throw new GatewayError((await this.#head(path, signal)) === undefined ? 'not_found' : 'not_dir')
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { offset, length } = range
    if (length === 0) {
      await this.#file(path, signal)
      return Readable.from([])
    }
    if (path === '/') throw new GatewayError('is_dir')
    const isWhole = offset === 0 && length === undefined
    const command = new GetObjectCommand({
      Bucket: this.#client.bucket,
      Key: this.#keys.file(path),
      ...(isWhole ? {} : { Range: `bytes=${offset}-${length === undefined ? '' : offset + length - 1}` }),
    })
    const answer = await this.#client
      .call((s3, options) => s3.send(command, options), signal)
      .catch(async (error: unknown) => {
        if (isGatewayError(error, 'range')) return undefined
        if (isGatewayError(error, 'not_found')) await this.#file(path, signal)
        throw error
      })
    if (!(answer?.Body instanceof Readable)) return Readable.from([])
    const body = this.#bodies.follow(answer.Body, answer.ContentLength, signal)
    if (isWhole || answer.ContentRange?.startsWith(`bytes ${offset}-`)) return body
    body.destroy()
    throw new GatewayError('unavailable', { reason: 'the S3 server did not answer with the part that was asked for' })
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal } = options
    assertGoing(signal)
    const target = this.#target(path, options)
    const body = await source.read(undefined, { signal })
    return taking(body, signal, async () => {
      const ready = this.#assertReplaceable(path, options)
      const publish = (last: () => Promise<string | undefined>) => this.#publish(path, options, last)
      const { etag, bytes } = await upload(this.#client, target, body, source.size, ready, publish, signal)
      if (this.options.keep_times && etag !== undefined) {
        return fileEntry(nameOf(path), bytes, { ETag: etag, Metadata: target.metadata }, true)
      }
      return this.#entry(path, await this.#file(path, signal))
    })
  }

  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { signal } = options
    assertGoing(signal)
    await this.#assertReplaceable(path, options)
    const target = this.#target(path, options)
    const kept = await KeptUpload.open(this.#client, target, plan, signal)
    const { token, confirmed, multipart } = kept
    return {
      token,
      confirmed,
      write: (from) => taking(from, signal, () => kept.send(from, signal)),
      commit: async () => {
        await this.#publish(path, options, () => multipart.complete(target.createOnly, signal))
        // What it is called by came with its beginning, maybe in another run.
        return this.#entry(path, await this.#file(path, signal))
      },
      // The server keeps the parts by itself.
      close: () => Promise.resolve(),
    }
  }

  async dropUpload(token: string): Promise<void> {
    await dropUpload(this.#client, token)
  }

  #target(path: Path, { modified = new Date(), createOnly = false }: WriteOptions): Target {
    return { key: this.#keys.file(path), contentType: typeOf(path), metadata: metadataOf(modified), createOnly }
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    this.#assertName(path)
    const make = async () => {
      const [old] = await Promise.all([this.#find(path, signal), this.#assertParent(path, signal)])
      if (old !== undefined) throw new GatewayError('exists')
      await this.#putMarker(path, signal)
    }
    await this.#publishing.run(this.#keys.file(path), make, signal)
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if ((await this.#removeFile(path, signal)) === 'removed') return
    const prefix = this.#keys.folder(path)
    // Two keys may be markers, so a third is a member.
    const keys = await this.#keysBelow(prefix, 3, signal)
    if (keys.some((key) => !this.#keys.isMarker(key, prefix))) throw new GatewayError('not_empty')
    for (const key of keys) await this.#delete(key, signal)
  }

  /** What a removal begins with: of a file that is all. */
  async #removeFile(path: Path, signal: AbortSignal | undefined): Promise<'removed' | 'folder'> {
    if (path === '/') throw new GatewayError('denied')
    const old = await this.#find(path, signal)
    if (old === undefined) throw new GatewayError('not_found')
    await this.#keepParent(path, signal)
    if (old === 'folder') return 'folder'
    await this.#delete(this.#keys.file(path), signal)
    return 'removed'
  }

  async removeTree(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if ((await this.#removeFile(path, signal)) === 'removed') return
    const request = { prefix: this.#keys.folder(path), version: this.options.list_object_version, signal }
    for await (const { objects } of pages(this.#client, request)) {
      await this.#deleteAll(objects, signal)
    }
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { signal } = options
    const head = await this.#file(from, signal)
    await this.#assertReplaceable(to, options)
    if (from === to) return
    const modified = options.modified ?? givenTime(head.Metadata) ?? head.LastModified ?? new Date()
    await copyObject(
      this.#client,
      this.#keys.file(from),
      this.#keys.file(to),
      head,
      { ...head.Metadata, ...metadataOf(modified) },
      this.limits,
      (last) => this.#publish(to, options, last),
      signal,
    )
  }

  async link(path: Path, { signal }: CallOptions = {}): Promise<Link> {
    await this.#file(path, signal)
    return linkTo(this.#client, this.options, this.#keys.file(path), nameOf(path))
  }

  /** The last step of a change of one key: nobody of this mount changes it at the same time. */
  async #publish<Result>(path: Path, options: WriteOptions, last: () => Promise<Result>): Promise<Result> {
    const { signal, createOnly, beforePublish } = options
    const publish = async () => {
      await beforePublish?.()
      assertGoing(signal)
      if (createOnly !== true) return last()
      if ((await this.#head(path, signal)) !== undefined) throw new GatewayError('exists')
      return last().catch((error: unknown) => {
        throw isGatewayError(error, 'precondition_failed') ? new GatewayError('exists', { cause: error }) : error
      })
    }
    return this.#publishing.run(this.#keys.file(path), publish, signal)
  }

  async #assertReplaceable(path: Path, { signal, createOnly }: WriteOptions): Promise<void> {
    if (path === '/') throw new GatewayError('is_dir')
    this.#assertName(path)
    const [below, old] = await Promise.all([
      this.#keysBelow(this.#keys.folder(path), 1, signal),
      createOnly === true ? this.#head(path, signal) : undefined,
      this.#assertParent(path, signal),
    ])
    if (old !== undefined) throw new GatewayError('exists')
    if (below.length > 0 && (await this.#head(path, signal)) === undefined) {
      throw new GatewayError(createOnly === true ? 'exists' : 'is_dir')
    }
  }

  async #assertParent(path: Path, signal: AbortSignal | undefined): Promise<void> {
    const parent = parentOf(path)
    if (parent === '/') return
    const keys = await this.#keysBelow(this.#keys.folder(parent), 1, signal)
    if (keys.length === 0) throw new GatewayError('parent_missing')
  }

  #assertName(path: Path): void {
    if (entryName(path) === this.#keys.placeholder) {
      throw new GatewayError('denied', { reason: 'files of this name keep the folders of the storage' })
    }
  }

  /** What is there; undefined for nothing. */
  async #find(path: Path, signal: AbortSignal | undefined): Promise<HeadObjectCommandOutput | 'folder' | undefined> {
    if (signal?.aborted) throw new GatewayError('aborted')
    if (path === '/') return 'folder'
    const head = await this.#head(path, signal)
    if (head) return head
    const keys = await this.#keysBelow(this.#keys.folder(path), 1, signal)
    return keys.length > 0 ? 'folder' : undefined
  }

  async #file(path: Path, signal: AbortSignal | undefined): Promise<HeadObjectCommandOutput> {
    const head = await this.#find(path, signal)
    if (head === undefined) throw new GatewayError('not_found')
    if (head === 'folder') throw new GatewayError('is_dir')
    return head
  }

  async #head(path: Path, signal: AbortSignal | undefined): Promise<HeadObjectCommandOutput | undefined> {
    if (path === '/' || entryName(path) === this.#keys.placeholder) return undefined
    return this.#headOf(this.#keys.file(path), signal)
  }

  async #headOf(key: string, signal: AbortSignal | undefined): Promise<HeadObjectCommandOutput | undefined> {
    const command = new HeadObjectCommand({ Bucket: this.#client.bucket, Key: key })
    return this.#client
      .call((s3, options) => s3.send(command, options), signal)
      .catch((error: unknown) => {
        if (isGatewayError(error, 'not_found')) return undefined
        throw error
      })
  }

  /** The first of the keys that start so, `count` at most. */
  async #keysBelow(prefix: string, count: number, signal: AbortSignal | undefined): Promise<string[]> {
    const request = { prefix, version: this.options.list_object_version, pageSize: count, signal }
    for await (const { objects } of pages(this.#client, request)) {
      if (objects.length > 0) return objects.map(({ Key }) => Key)
    }
    return []
  }

  async #listedFiles(
    found: readonly ListedObject[],
    prefix: string,
    signal: AbortSignal | undefined,
  ): Promise<Entry[]> {
    const nameOfKey = (key: string) => key.slice(prefix.length)
    if (!this.options.keep_times) {
      return found.map((object) => fileEntry(nameOfKey(object.Key), object.Size, object, false))
    }
    const entries: Entry[] = []
    const waiting = found.values()
    const work = async () => {
      for (const { Key } of waiting) {
        const head = await this.#headOf(Key, signal)
        // Removed since it was listed.
        if (head) entries.push(fileEntry(nameOfKey(Key), head.ContentLength, head, true))
      }
    }
    await Promise.all(Array.from({ length: parallelTimes }, work))
    return entries
  }

  /** A folder that loses its last member stays: it gets its marker before. */
  async #keepParent(path: Path, signal: AbortSignal | undefined): Promise<void> {
    const parent = parentOf(path)
    if (parent === '/') return
    const file = this.#keys.file(path)
    const prefix = this.#keys.folder(parent)
    for await (const { objects, prefixes } of pages(this.#client, {
      prefix,
      version: this.options.list_object_version,
      delimiter: '/',
      pageSize: 2,
      signal,
    })) {
      const others = [...objects.map(({ Key }) => Key), ...prefixes].filter((key) => key !== file && key !== `${file}/`)
      if (others.length > 0) return
    }
    await this.#putMarker(parent, signal)
  }

  async #putMarker(path: Path, signal: AbortSignal | undefined): Promise<void> {
    const command = new PutObjectCommand({
      Bucket: this.#client.bucket,
      Key: this.#keys.marker(path),
      Body: Buffer.alloc(0),
    })
    await this.#client.call((s3, options) => s3.send(command, options), signal)
  }

  async #delete(key: string, signal: AbortSignal | undefined): Promise<void> {
    const command = new DeleteObjectCommand({ Bucket: this.#client.bucket, Key: key })
    await this.#client.call((s3, options) => s3.send(command, options), signal)
  }

  async #deleteAll(objects: readonly ListedObject[], signal: AbortSignal | undefined): Promise<void> {
    if (objects.length === 0) return
    const command = new DeleteObjectsCommand({
      Bucket: this.#client.bucket,
      Delete: { Objects: objects.map(({ Key }) => ({ Key })), Quiet: true },
    })
    const answer = await this.#client
      .call((s3, options) => s3.send(command, options), signal, 'lengthy')
      .catch((error: unknown) => {
        if (isGatewayError(error, 'unsupported')) return undefined
        throw error
      })
    if (answer === undefined) {
      for (const { Key } of objects) await this.#delete(Key, signal)
      return
    }
    const failed = answer.Errors?.find(({ Code }) => Code !== 'NoSuchKey')
    if (!failed) return
    const code = failed.Code === 'AccessDenied' ? 'denied' : 'unavailable'
    throw new GatewayError(code, { reason: 'the S3 server did not remove all of it' })
  }

  #entry(path: Path, head: HeadObjectCommandOutput): Entry {
    return fileEntry(nameOf(path), head.ContentLength, head, this.options.keep_times)
  }
}

function typeOf(path: Path): string {
  const found = mimeTypes.lookup(nameOf(path))
  return found === false ? 'application/octet-stream' : found
}
