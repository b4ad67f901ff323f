/** One upload: its parts go to the object store, which accepts requests that the API has signed. */
import { AliyunOss, ossCodeOf, stringToSign, withOssRetries, type OssPart, type OssUpload } from '../lib/aliyun-oss.js'
import type { HttpClient } from '../lib/http-client.js'
import type { QuarkApi, UploadTask } from './api.js'
import type { QuarkVendor } from './vendor.js'

/** The client of the object store that the API signs requests for. */
const storeClient = 'aliyun-sdk-js/6.6.1 Chrome 98.0.4758.80 on Windows 10 64-bit'

/** Of both services. */
const referer = 'https://pan.quark.cn/'

export class UploadSession {
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
