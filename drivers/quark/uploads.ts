/**
 * Uploads of files under staged names. The service is asked by hashes first: a content that it has is not sent.
 * Otherwise parts are sent in order, and what is needed to go on after a restart is recorded with each part. What ended
 * runs have left under staged names is removed.
 */
import { put } from '../../src/base/bounded-tables.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/base/errors.js'
import type { Instance } from '../../src/contract/driver-env.js'
import {
  maxOssParts,
  ossCodeOf,
  type OssPart,
  AliyunOss,
  stringToSign,
  withOssRetries,
  type OssUpload,
} from '../lib/cloud/aliyun-oss.js'
import type { HttpClient } from '../lib/http/http-client.js'
import { BackgroundDeleter } from '../lib/staged-files/background-deleter.js'
import { isOrphan } from '../lib/staged-files/staged-names.js'
import type { FileHashes, QuarkApi, UploadTask } from './api.js'
import type { UploadRecord, UploadRecords } from './upload-records.js'
import type { QuarkVendor } from './vendor.js'
import type { QuarkItem } from './items.js'

/** Answers of the object store after which an upload has to begin anew. */
const finalCodes = ['NoSuchUpload', 'InvalidPart', 'InvalidPartOrder', 'EntityTooSmall']

interface UploadsDependencies {
  readonly api: QuarkApi
  readonly http: HttpClient
  readonly vendor: QuarkVendor
  readonly records: UploadRecords
}

/** The content that is uploaded, and its target. */
export interface FileToStage {
  readonly parentId: string
  readonly stagedName: string
  readonly mime: string
  /** The size in bytes. */
  readonly size: number
  readonly hashes: FileHashes
  readonly modified: Date | undefined
}

export class Uploads {
  constructor(private readonly dependencies: UploadsDependencies) {}

  /** `isResumable`: it is recorded, and can be resumed until it is complete. */
  async begin(file: FileToStage, isResumable: boolean, signal: AbortSignal | undefined): Promise<QuarkUpload> {
    const { api, records } = this.dependencies
    const { parentId, stagedName, mime, size, hashes, modified } = file
    const task = await api.beginUpload({ parentId, name: stagedName, mime, size, modified }, signal)
    if (Math.ceil(size / task.partSize) > maxOssParts) throw new GatewayError('too_large')
    const isKnown = await api.setHashes(task, hashes, signal)
    const record = { task, parentId, stagedName, size, hashes }
    const isRecorded = isResumable && !isKnown
    if (isRecorded) await records.add(record)
    return this.#upload(record, [], { isFinished: isKnown, isRecorded })
  }

  /** The upload with this token, if it is one of the same content to the same folder. */
  async resume(
    token: string,
    { parentId, size, hashes }: Pick<FileToStage, 'parentId' | 'size' | 'hashes'>,
  ): Promise<QuarkUpload | undefined> {
    const found = await this.dependencies.records.find(token)
    if (!found) return undefined
    const { record, parts } = found
    const isSame = record.parentId === parentId && record.size === size && record.hashes.sha1 === hashes.sha1
    return isSame ? this.#upload(record, parts, { isFinished: false, isRecorded: true }) : undefined
  }

  /** Forgets the upload with this token. The service discards its parts some time later. */
  async drop(token: string): Promise<void> {
    await this.dependencies.records.remove(token)
  }

  #upload(
    record: UploadRecord,
    parts: readonly OssPart[],
    { isFinished, isRecorded }: { readonly isFinished: boolean; readonly isRecorded: boolean },
  ): QuarkUpload {
    const { api, http, vendor, records } = this.dependencies
    const session = new SignedUpload(api, http, vendor, record.task)
    return new QuarkUpload(record, session, isRecorded ? records : undefined, [...parts], isFinished)
  }
}

/** A file that is being uploaded, or that has been and has its staged name. */
export class QuarkUpload {
  /** The file has its final name. */
  isPublished = false

  constructor(
    readonly record: UploadRecord,
    private readonly session: SignedUpload,
    /** The records of uploads; absent if uploads are not continued by a later run. */
    private readonly records: UploadRecords | undefined,
    private readonly parts: OssPart[],
    /** The file exists, under its staged name. */
    public isFinished: boolean,
  ) {}

  get fileId(): string {
    return this.record.task.fileId
  }

  /** Bytes that are stored, from the start. */
  get committedOffset(): number {
    if (this.isFinished) return this.record.size
    return this.parts.reduce((sum, { size }) => sum + size, 0)
  }

  /** Sends the next part. Resolves when it is stored and recorded. */
  async send(number: number, bytes: Buffer, signal: AbortSignal): Promise<void> {
    this.parts.push(await this.#ofUpload(this.session.sendPart(number, bytes, signal)))
    await this.records?.addPart(this.record.task, this.parts)
  }

  /** Makes a file of the parts, under its staged name. It cannot be resumed any more then. */
  async complete(): Promise<void> {
    if (this.isFinished) return
    await this.#ofUpload(this.session.complete(this.parts))
    this.isFinished = true
    await this.records?.remove(this.record.task.taskId)
  }

  /** Forgets the upload if the service has done so: the next attempt begins anew. */
  async #ofUpload<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      const isGone = finalCodes.includes(ossCodeOf(error) ?? '') || isGatewayError(error, 'not_found', 'invalid')
      if (!isGone) throw toGatewayError(error)
      await this.records?.remove(this.record.task.taskId)
      throw new GatewayError('unavailable', { reason: 'the server no longer accepts the upload', cause: error })
    }
  }
}

/** The client of the object store that the API signs requests for. */
const storeClient = 'aliyun-sdk-js/6.6.1 Chrome 98.0.4758.80 on Windows 10 64-bit'

/** The Referer of requests to the object store, for both services. */
const referer = 'https://pan.quark.cn/'

/** One upload: its parts go to the object store, which accepts requests that the API has signed. */
class SignedUpload {
  readonly #store: AliyunOss
  readonly #upload: OssUpload

  constructor(
    private readonly api: QuarkApi,
    http: HttpClient,
    { userAgent }: QuarkVendor,
    readonly task: UploadTask,
  ) {
    const { endpoint, bucket, key, uploadId, mime } = task
    this.#upload = { endpoint, bucket, key, id: uploadId }
    this.#store = new AliyunOss({
      http,
      userAgent,
      sign: async (request, signal) => {
        const headers = {
          ...request.headers,
          ...(request.method === 'PUT' && { 'content-type': mime }),
          'x-oss-date': request.headers.date ?? '',
          'x-oss-user-agent': storeClient,
          referer,
        }
        const authorization = await api.signature(task, stringToSign({ ...request, headers }), signal)
        return { ...headers, authorization }
      },
    })
  }

  /** Resolves when the part is stored. */
  sendPart(number: number, bytes: Buffer, signal: AbortSignal): Promise<OssPart> {
    return this.#store.sendPart(this.#upload, number, bytes, signal)
  }

  /** Makes a file of the parts, under the name that the upload began with. It is not canceled. */
  async complete(parts: readonly OssPart[]): Promise<void> {
    // The service knows the content of an empty file; it has no parts.
    if (parts.length > 0) await this.#join(parts)
    await this.api.finishUpload(this.task)
  }

  /** The API knows whether the parts were joined: `finishUpload` rejects if they were not. */
  async #join(parts: readonly OssPart[]): Promise<void> {
    let isRepeated = false
    await withOssRetries(async () => {
      try {
        await this.#store.complete(this.#upload, parts, { callback: this.task.callback }, undefined)
      } catch (error) {
        // The answer to an earlier attempt was lost.
        if (!isRepeated || ossCodeOf(error) !== 'NoSuchUpload') throw error
      } finally {
        isRepeated = true
      }
    }, undefined)
  }
}

/** Maximum number of orphans that are observed. */
const maxObserved = 1000
/** For how many times the lag of listings an orphan is observed. */
const lags = 10

/**
 * Removes files that earlier runs have uploaded and not published. Listings that lag may show a published file under
 * its staged name, so one is removed only if listings have shown it as an orphan for much longer than they lag.
 */
export class UnpublishedFiles {
  /** When a listing has shown each orphan first, in milliseconds of `performance.now()`. */
  readonly #seenSince = new Map<string, number>()
  readonly #deleter: BackgroundDeleter

  constructor(
    private readonly instance: Instance,
    /** Milliseconds for which listings do not show a change. */
    private readonly lag: number,
    remove: (id: string) => Promise<void>,
    /** Whether the file is still to be published. */
    private readonly isNeeded: (id: string) => boolean,
  ) {
    this.#deleter = new BackgroundDeleter(async (id) => {
      if (!this.isNeeded(id)) await remove(id)
    })
  }

  /** A listing shows this staged file. */
  observe({ id, name }: QuarkItem): void {
    if (!isOrphan(name, this.instance) || this.isNeeded(id)) {
      this.#seenSince.delete(id)
      return
    }
    const now = performance.now()
    const since = this.#seenSince.get(id)
    if (since === undefined) put(this.#seenSince, id, now, maxObserved)
    else if (now - since > lags * this.lag) this.discard(id)
  }

  /** Removes a staged file that will not be published, in the background. */
  discard(id: string): void {
    this.#deleter.enqueue(id)
  }
}
