/**
 * A bucket as a tree. A folder is a common prefix of keys. A marker, an empty object, represents an empty folder. If a
 * file and a folder have the same name, only the file is visible.
 */
import { Readable } from 'node:stream'
import {
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type HeadObjectCommandOutput,
} from '@aws-sdk/client-s3'
import mimeTypes from 'mime-types'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { DirectUrl, Upload, UploadPlan } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, ListOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { nameOf, parentOf, type Path } from '../../src/base/path.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { resumableUpload, withBody } from '../lib/streams/parts.js'
import { ResponseBodies } from '../lib/http/response-bodies.js'
import { BucketClient, parseServerUrl } from './client.js'
import { copyLimits, copyObject, type CopyLimits } from './copying.js'
import { statusOf, translated } from './errors.js'
import type { S3Options } from './index.js'
import { entryName, fileEntry, folderEntry, metadataTime, ObjectKeys, timeMetadata } from './object-keys.js'
import { createDirectUrl } from './direct-urls.js'
import { pages, type ListedObject } from './listing.js'
import { abortUpload, openResumable } from './resumable-upload.js'
import { maxParts, parallelParts, upload, type UploadTarget } from './upload.js'

/** Concurrent HeadObject requests for the times of listed files. */
const parallelTimes = 32

/** Rejects with `invalid` for invalid options, and with the server's error if the bucket cannot be listed. */
export async function openS3(options: S3Options, env: DriverEnv, limits: CopyLimits = copyLimits): Promise<Driver> {
  if (options.sign_url_expire < 0)
    throw new GatewayError('invalid', { reason: 'the field sign_url_expire is negative' })
  if (options.placeholder.includes('/')) {
    throw new GatewayError('invalid', { reason: 'the field placeholder must be a name' })
  }
  if (options.custom_host !== '') parseServerUrl(options.custom_host, 'custom_host')
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
  readonly #keys: ObjectKeys
  readonly #bodies = new ResponseBodies('S3 server', translated)
  readonly #publishing = new KeyedMutex()
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
    this.#keys = new ObjectKeys(
      options.root_folder_path,
      options.placeholder === '' ? '.openlist' : options.placeholder,
    )
    env.signal.addEventListener('abort', this.#close, { once: true })
  }

  async close(): Promise<void> {
    this.env.signal.removeEventListener('abort', this.#close)
    this.#close()
  }

  /** Verifies the address, the bucket, the credentials and the permission to list, with one request. */
  async check(signal: AbortSignal): Promise<void> {
    await this.#objectsBelow(this.#keys.folder('/' as Path), 1, signal)
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    const head = await this.#find(path, signal)
    if (head === undefined) throw new GatewayError('not_found')
    if (head === 'folder') return folderEntry(entryName(path), this.#since)
    return this.#entry(path, head)
  }

  async *pages(path: Path, { signal }: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    const prefix = this.#keys.folder(path)
    let isFolder = path === '/'
    /** Names of files that may hide a folder of the same name on a later page. */
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
      // A folder object with content counts as an entry whose name no path can hold: copies report it, moves leave it.
      const content = objects.filter(({ Key, Size }) => Key === prefix && Size !== 0)
      const entries = [
        ...content.map((object) => fileEntry('', object.Size, object, false)),
        ...(await this.#listedFiles(found, prefix, signal)),
        ...folders.map((name) => folderEntry(name, this.#since)),
      ]
      if (entries.length > 0) yield entries
    }
    if (isFolder) return
    throw new GatewayError((await this.#head(path, signal)) === undefined ? 'not_found' : 'not_folder')
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { offset, length } = range
    if (length === 0) {
      await this.#file(path, signal)
      return Readable.from([])
    }
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
    const body = this.#bodies.track(answer.Body, answer.ContentLength, signal)
    if (isWhole || answer.ContentRange?.startsWith(`bytes ${offset}-`)) return body
    body.destroy()
    throw new GatewayError('unavailable', { reason: 'the S3 server did not return the requested range' })
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal } = options
    throwIfAborted(signal)
    const target = this.#target(path, options)
    const body = await source.read(undefined, { signal })
    return withBody(body, signal, async () => {
      const ready = this.#assertReplaceable(path, options)
      const publish = (finish: () => Promise<string | undefined>) => this.#publish(path, options, finish)
      const { etag, bytes } = await upload(this.#client, target, body, source.size, ready, publish, signal)
      if (this.options.keep_times && etag !== undefined) {
        return fileEntry(nameOf(path), bytes, { ETag: etag, Metadata: target.metadata }, true)
      }
      return this.#entry(path, await this.#file(path, signal))
    })
  }

  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { signal } = options
    throwIfAborted(signal)
    await this.#assertReplaceable(path, options)
    const target = this.#target(path, options)
    const { multipart, ...resumable } = await openResumable(this.#client, target, plan, signal)
    const commit = async () => {
      await this.#publish(path, options, () => multipart.complete(target.createOnly, signal))
      // The metadata was set when the upload was started, possibly before a restart, so the entry is read from the
      // server.
      return this.#entry(path, await this.#file(path, signal))
    }
    const { size } = plan
    const { sendPart: send } = multipart
    return resumableUpload({ ...resumable, size, maxParts, parallel: parallelParts, send, commit, signal })
  }

  async dropUpload(token: string): Promise<void> {
    await abortUpload(this.#client, token)
  }

  #target(path: Path, { modified = new Date(), createOnly = false }: WriteOptions): UploadTarget {
    return { key: this.#keys.file(path), contentType: typeOf(path), metadata: timeMetadata(modified), createOnly }
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
    // At most two keys are markers, so three keys are enough to find a member.
    const objects = await this.#objectsBelow(prefix, 3, signal)
    if (objects.some(({ Key }) => !this.#keys.isMarker(Key, prefix))) throw new GatewayError('not_empty')
    if (objects.some(({ Size }) => Size !== 0))
      throw new GatewayError('not_empty', { reason: 'the object of the folder itself has content' })
    for (const { Key } of objects) await this.#delete(Key, signal)
  }

  /** Removes the file. For a folder, only preserves its parent; the caller removes the keys below it. */
  async #removeFile(path: Path, signal: AbortSignal | undefined): Promise<'removed' | 'folder'> {
    const old = await this.#find(path, signal)
    if (old === undefined) throw new GatewayError('not_found')
    await this.#preserveParent(path, signal)
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
    const modified = options.modified ?? metadataTime(head.Metadata) ?? head.LastModified ?? new Date()
    await copyObject(
      this.#client,
      this.#keys.file(from),
      this.#keys.file(to),
      head,
      { ...head.Metadata, ...timeMetadata(modified) },
      this.limits,
      (finish) => this.#publish(to, options, finish),
      signal,
    )
  }

  async directUrl(path: Path, { signal }: CallOptions = {}): Promise<DirectUrl> {
    await this.#file(path, signal)
    return createDirectUrl(this.#client, this.options, this.#keys.file(path), nameOf(path))
  }

  /** Runs the final step of a write, serialized with other writes of this mount to the same key. */
  async #publish<Result>(path: Path, options: WriteOptions, finish: () => Promise<Result>): Promise<Result> {
    const { signal, createOnly, beforePublish } = options
    const publish = async () => {
      await beforePublish?.()
      throwIfAborted(signal)
      if (createOnly !== true) return finish()
      if ((await this.#head(path, signal)) !== undefined) throw new GatewayError('exists')
      return finish().catch((error: unknown) => {
        throw isGatewayError(error, 'precondition_failed') ? new GatewayError('exists', { cause: error }) : error
      })
    }
    return this.#publishing.run(this.#keys.file(path), publish, signal)
  }

  async #assertReplaceable(path: Path, { signal, createOnly }: WriteOptions): Promise<void> {
    this.#assertName(path)
    const [below, old] = await Promise.all([
      this.#objectsBelow(this.#keys.folder(path), 1, signal),
      createOnly === true ? this.#head(path, signal) : undefined,
      this.#assertParent(path, signal),
    ])
    if (old !== undefined) throw new GatewayError('exists')
    if (below.length > 0 && (await this.#head(path, signal)) === undefined) {
      throw new GatewayError(createOnly === true ? 'exists' : 'is_folder')
    }
  }

  async #assertParent(path: Path, signal: AbortSignal | undefined): Promise<void> {
    const parent = parentOf(path)
    if (parent === '/') return
    const keys = await this.#objectsBelow(this.#keys.folder(parent), 1, signal)
    if (keys.length === 0) throw new GatewayError('parent_missing')
  }

  #assertName(path: Path): void {
    if (entryName(path) === this.#keys.placeholder) {
      throw new GatewayError('denied', { reason: 'the storage uses this name for folder markers' })
    }
  }

  /** The object at the path, or 'folder'; undefined if there is neither. */
  async #find(path: Path, signal: AbortSignal | undefined): Promise<HeadObjectCommandOutput | 'folder' | undefined> {
    if (signal?.aborted) throw new GatewayError('aborted')
    if (path === '/') return 'folder'
    const head = await this.#head(path, signal)
    if (head) return head
    const keys = await this.#objectsBelow(this.#keys.folder(path), 1, signal)
    return keys.length > 0 ? 'folder' : undefined
  }

  async #file(path: Path, signal: AbortSignal | undefined): Promise<HeadObjectCommandOutput> {
    const head = await this.#find(path, signal)
    if (head === undefined) throw new GatewayError('not_found')
    if (head === 'folder') throw new GatewayError('is_folder')
    return head
  }

  async #head(path: Path, signal: AbortSignal | undefined): Promise<HeadObjectCommandOutput | undefined> {
    if (path === '/' || entryName(path) === this.#keys.placeholder) return undefined
    return this.#headOf(this.#keys.file(path), signal)
  }

  async #headOf(key: string, signal: AbortSignal | undefined): Promise<HeadObjectCommandOutput | undefined> {
    const object = { Bucket: this.#client.bucket, Key: key }
    const answer = this.#client.call(async (s3, options) => {
      try {
        return await s3.send(new HeadObjectCommand(object), options)
      } catch (error) {
        if (statusOf(error) !== 400) throw error
        // An answer to HEAD has no body, which would name the error.
        const { Body } = await s3.send(new GetObjectCommand({ ...object, Range: 'bytes=0-0' }), options)
        if (Body instanceof Readable) Body.destroy()
        throw error
      }
    }, signal)
    return undefinedIfMissing(answer)
  }

  /** The first objects with this prefix, at most `count`. */
  async #objectsBelow(
    prefix: string,
    count: number,
    signal: AbortSignal | undefined,
  ): Promise<readonly ListedObject[]> {
    const request = { prefix, version: this.options.list_object_version, pageSize: count, signal }
    for await (const { objects } of pages(this.#client, request)) {
      if (objects.length > 0) return objects
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
        // Undefined if the object was removed after the listing.
        if (head) entries.push(fileEntry(nameOfKey(Key), head.ContentLength, head, true))
      }
    }
    await Promise.all(Array.from({ length: parallelTimes }, work))
    return entries
  }

  /** Writes the marker of the parent folder if `path` is its last member, so that the folder continues to exist. */
  async #preserveParent(path: Path, signal: AbortSignal | undefined): Promise<void> {
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
    throw new GatewayError(code, { reason: 'the S3 server did not remove all objects' })
  }

  #entry(path: Path, head: HeadObjectCommandOutput): Entry {
    return fileEntry(nameOf(path), head.ContentLength, head, this.options.keep_times)
  }
}

function typeOf(path: Path): string {
  const found = mimeTypes.lookup(nameOf(path))
  return found === false ? 'application/octet-stream' : found
}
