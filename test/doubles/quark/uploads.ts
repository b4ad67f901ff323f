/** Uploads of a Quark or UC account: tasks of the API, and the object store that their parts are sent to. */
import { createHmac, randomBytes } from 'node:crypto'
import type { Contents } from '../contents.js'
import { OssDouble, OssFailure, type FinishedObject, type OssRequest } from '../oss.js'
import { newId, type QuarkDrive } from './drive.js'
import { refusals, type QuarkVendor } from './vendor.js'

interface UploadTask {
  readonly id: string
  /** The id that the file will have. */
  readonly fid: string
  readonly parent: string
  readonly name: string
  readonly size: number
  readonly mime: string
  readonly uploadId: string
  readonly key: string
  readonly authInfo: string
  readonly callback: { readonly callbackUrl: string; readonly callbackBody: string }
  hashes: { readonly md5: string; readonly sha1: string } | undefined
  /** Bytes are in the store and have the announced hashes. */
  isStored: boolean
  /** The file is in its folder. */
  isFinished: boolean
}

export interface NewUpload {
  readonly parent: string
  readonly name: string
  readonly size: number
  readonly mime: string
}

const bucket = 'ul-zb'
const ossUserAgent = 'aliyun-sdk-js/6.6.1 Chrome 98.0.4758.80 on Windows 10 64-bit'
/** Milliseconds by which the time of a request may differ from that of the store. */
const maxSkew = 15 * 60_000
/** Bytes of the smallest part but the last. */
const minPart = 100 * 1024

export class QuarkUploads {
  readonly oss: OssDouble
  readonly #tasks = new Map<string, UploadTask>()
  readonly #accessKey = newId()
  readonly #secret = randomBytes(16).toString('hex')

  constructor(
    private readonly vendor: QuarkVendor,
    private readonly drive: QuarkDrive,
    private readonly contents: Contents,
    /** Bytes of each part but the last. */
    readonly partSize: number,
  ) {
    this.oss = new OssDouble(contents, {
      authorize: (request) => this.#authorize(request),
      onFinished: (object) => this.#onFinished(object),
      minPartSize: Math.min(minPart, partSize),
    })
  }

  /** Tasks whose file is not in its folder yet. */
  get pending(): number {
    return [...this.#tasks.values()].filter(({ isFinished }) => !isFinished).length
  }

  /** `file/upload/pre` */
  begin(upload: NewUpload): object {
    this.drive.assertFolder(upload.parent)
    // With the rule that refuses them, a name that is taken is refused now and not after the bytes.
    this.drive.freeName(upload.parent, upload.name)
    const key = `${newId()}/${newId()}`
    const task: UploadTask = {
      ...upload,
      id: newId(),
      fid: newId(),
      uploadId: this.oss.beginUpload(bucket, key, false, upload.mime),
      key,
      authInfo: randomBytes(48).toString('base64'),
      callback: {
        callbackUrl: `https://${this.vendor.api}/1/clouddrive/callback`,
        callbackBody: `{"task":"${newId()}","bucket":\${bucket},"etag":\${etag}}`,
      },
      hashes: undefined,
      isStored: false,
      isFinished: false,
    }
    this.#tasks.set(task.id, task)
    const { id: task_id, fid, uploadId: upload_id, authInfo: auth_info, callback } = task
    const upload_url = `http://${this.vendor.store}`
    return { task_id, finish: false, upload_id, obj_key: key, upload_url, fid, bucket, callback, auth_info }
  }

  /** `file/upload/hash`. Whether the vendor has the content, so that the upload is done. */
  setHashes(taskId: string, md5: string, sha1: string): boolean {
    const task = this.#task(taskId)
    if (!/^[0-9a-f]{32}$/.test(md5) || !/^[0-9a-f]{40}$/.test(sha1)) throw refusals.invalid('md5 or sha1')
    task.hashes = { md5, sha1 }
    const known = this.contents.find(sha1)
    if (known?.md5 !== md5.toUpperCase() || known.size !== task.size) return false
    this.#publish(task)
    return true
  }

  /** `file/upload/auth`: signs a request to the store. */
  sign(taskId: string, authInfo: string, meta: string): string {
    const task = this.#task(taskId)
    if (authInfo !== task.authInfo) throw refusals.invalid('auth_info')
    if (!task.hashes) throw refusals.invalid('no hash was sent')
    const lines = meta.split('\n')
    const [verb = '', resource = ''] = [lines[0], lines.at(-1)]
    const own = `/${bucket}/${task.key}?`
    const expected = verb === 'PUT' ? /^partNumber=\d+&uploadId=(\w+)$/ : /^uploadId=(\w+)$/
    const uploadId = resource.startsWith(own) ? expected.exec(resource.slice(own.length))?.[1] : undefined
    if (!['PUT', 'POST'].includes(verb) || uploadId !== task.uploadId) throw refusals.invalid('auth_meta')
    return `OSS ${this.#accessKey}:${this.#signature(meta)}`
  }

  /** `file/upload/finish`. The id of the file. */
  finish(taskId: string, key: string): string {
    const task = this.#task(taskId)
    if (key !== task.key) throw refusals.invalid('obj_key')
    if (!task.isStored) throw refusals.invalid('the upload is not complete')
    if (!task.isFinished) this.#publish(task)
    return task.fid
  }

  #publish(task: UploadTask): void {
    const content = this.contents.find(task.hashes?.sha1 ?? '')
    if (!content) throw refusals.invalid('no content')
    this.drive.create(task.parent, task.name, content, task.fid)
    task.isStored = true
    task.isFinished = true
  }

  #task(id: string): UploadTask {
    const task = this.#tasks.get(id)
    if (!task) throw refusals.missing()
    return task
  }

  /** The check of the store: each request has a signature of the API. */
  #authorize({ method, query, headers, stringToSign }: OssRequest): void {
    const task = [...this.#tasks.values()].find(({ uploadId }) => uploadId === query.get('uploadId'))
    if (!task) throw new OssFailure(404, 'NoSuchUpload')
    if (headers.authorization !== `OSS ${this.#accessKey}:${this.#signature(stringToSign)}`) {
      throw new OssFailure(403, 'SignatureDoesNotMatch', stringToSign)
    }
    const skew = Math.abs(Date.parse(String(headers['x-oss-date'])) - Date.now())
    if (!(skew < maxSkew)) throw new OssFailure(403, 'RequestTimeTooSkewed')
    if (headers['x-oss-user-agent'] !== ossUserAgent) throw new OssFailure(403, 'AccessDenied', 'x-oss-user-agent')
    if (headers.referer !== 'https://pan.quark.cn/') throw new OssFailure(403, 'AccessDenied', 'referer')
    if (method === 'POST') {
      if (headers['content-md5'] === undefined) throw new OssFailure(400, 'InvalidDigest')
      return
    }
    if (headers['content-type'] !== task.mime) throw new OssFailure(403, 'AccessDenied', 'content-type')
    const part = Number(query.get('partNumber'))
    const expected = Math.min(this.partSize, task.size - this.partSize * (part - 1))
    if (Number(headers['content-length']) !== expected) throw new OssFailure(400, 'InvalidArgument', 'part size')
  }

  /** The callback that the store makes when an object is complete. */
  async #onFinished({ key, content, callback }: FinishedObject) {
    const task = [...this.#tasks.values()].find((one) => one.key === key)
    const { md5, sha1 } = task?.hashes ?? { md5: '', sha1: '' }
    const isWhole =
      content.size === task?.size && content.md5 === md5.toUpperCase() && content.sha1 === sha1.toUpperCase()
    if (!task || !isWhole || !isJsonOf(callback, task.callback)) return { status: 400, body: '' }
    task.isStored = true
    return { body: JSON.stringify({ Status: 'OK' }) }
  }

  #signature(text: string): string {
    return createHmac('sha1', this.#secret).update(text).digest('base64')
  }
}

/** Whether the text is JSON with exactly these fields. */
function isJsonOf(text: string, expected: Readonly<Record<string, string>>): boolean {
  try {
    const value = JSON.parse(text) as Readonly<Record<string, unknown>>
    const names = Object.keys(expected)
    return Object.keys(value).length === names.length && names.every((name) => value[name] === expected[name])
  } catch {
    return false
  }
}
