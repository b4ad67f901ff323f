/** Uploads: `uplb.115.com`, which answers in its own encryption, and what happens when the object store calls back. */
import { createHash, randomInt, randomUUID } from 'node:crypto'
import type { Contents } from '../contents.js'
import { OssDouble, type FinishedObject } from '../oss.js'
import type { Account } from './account.js'
import type { Drive } from './drive.js'
import { BadToken, decodeToken, Ec115Server } from './ec115.js'
import { seconds } from './files.js'
import { Answer, Refusal, type Call, type Handler } from './http-routes.js'

export const bucket = 'fhnfile'
export const region = 'oss-cn-shenzhen'
const tokenSalt = 'Qclm8MGWUv59TnrR0XPg'
const maxProof = 128 * 1024

interface Planned {
  readonly folder: string
  readonly name: string
  readonly sha1: string
  readonly size: number
  readonly callback: string
  readonly callbackVar: string
}

interface Challenge {
  readonly first: number
  readonly last: number
  readonly until: number
}

export class Uploads {
  readonly oss: OssDouble
  readonly cipher = new Ec115Server()
  /** Milliseconds for which a demanded proof is accepted. */
  proofTime = 60_000
  /** Whether the proof is demanded of files that the server does not know, too. */
  alwaysDemandsProof = false
  /** The names of two keys of tokens are spelled in two ways. */
  tokenIdName: 'AccessKeyId' | 'AccessKeyID' = 'AccessKeyId'
  /** Milliseconds for which a new token is valid. */
  tokenLifetime = 3_600_000
  /** Uploads by the keys of their objects. */
  readonly #planned = new Map<string, Planned>()
  readonly #challenges = new Map<string, Challenge>()

  constructor(
    private readonly account: Account,
    private readonly drive: Drive,
    private readonly contents: Contents,
    minPartSize?: number,
  ) {
    this.oss = new OssDouble(contents, {
      onFinished: (object) => this.#onFinished(object),
      ...(minPartSize !== undefined && { minPartSize }),
    })
  }

  routes(): Readonly<Record<string, Readonly<Record<string, Handler>>>> {
    const own =
      (handler: Handler): Handler =>
      (call) => {
        this.account.assertSignedIn(call)
        return handler(call)
      }
    return {
      'proapi.115.com': {
        'POST /app/uploadinfo': own(() => ({
          state: true,
          error: '',
          errno: 0,
          user_id: Number(this.account.id),
          userkey: this.account.userKey,
          size_limit: 123_480_309_760,
          upload_allowed: true,
          upload_allowed_msg: '',
        })),
      },
      'uplb.115.com': {
        'POST /4.0/initupload.php': own((call) => this.#begin(call)),
        'GET /3.0/gettoken.php': own(() => this.#token()),
        'GET /3.0/getuploadinfo.php': own(() => ({
          endpoint: `http://${region}.aliyuncs.com`,
          gettokenurl: 'http://uplb.115.com/3.0/gettoken.php',
        })),
      },
    }
  }

  async #begin(call: Call): Promise<unknown> {
    const isForm = /^application\/x-www-form-urlencoded\b/.test(call.headers['content-type'] ?? '')
    if (!isForm) throw new Refusal(990002, '参数错误。')
    try {
      const token = decodeToken(call.query.get('k_ec') ?? '')
      const cipher = this.cipher.cipherFor(token)
      const text = cipher.decrypt(call.body)
      const answer = await this.#answer(text, token.time)
      return new Answer(cipher.encrypt(JSON.stringify(answer)), 200, { 'content-type': 'application/octet-stream' })
    } catch (error) {
      if (error instanceof BadToken) throw new Refusal(990002, '参数错误。')
      throw error
    }
  }

  async #answer(text: string, tokenTime: number): Promise<unknown> {
    const form = new URLSearchParams(text)
    const names = [...form.keys()]
    const value = (name: string) => form.get(name) ?? ''
    const [userId, fileId, size, target] = ['userid', 'fileid', 'filesize', 'target'].map(value)
    const isComplete =
      value('appid') === '0' &&
      value('appversion') !== '' &&
      value('filename') !== '' &&
      /^[0-9A-F]{40}$/.test(fileId ?? '')
    const folder = /^U_1_(\d+)$/.exec(target ?? '')?.[1] ?? ''
    const isSorted = names.every((name, at) => at === 0 || (names[at - 1] ?? '') < name)
    if (
      !isComplete ||
      !isSorted ||
      userId !== this.account.id ||
      !/^\d+$/.test(size ?? '') ||
      !this.drive.isFolder(folder)
    ) {
      return failure(402, 'userid/filesize/target/pickcode invalid')
    }
    if (value('sig') !== this.#signature(form) || (Number(value('t')) & 0xffffffff) >>> 0 !== tokenTime) {
      return failure(400, 'sig invalid')
    }
    if (value('token') !== requestToken(form)) return failure(402, 'token invalid')
    return this.#decide(form, folder)
  }

  async #decide(form: URLSearchParams, folder: string): Promise<unknown> {
    const [name = '', sha1 = '', signKey = '', signValue = ''] = ['filename', 'fileid', 'sign_key', 'sign_val'].map(
      (field) => form.get(field) ?? '',
    )
    const size = Number(form.get('filesize'))
    const found = this.contents.find(sha1)
    const known = found?.size === size ? found : undefined
    if (size > 0 && (known || this.alwaysDemandsProof)) {
      if (signKey === '') return this.#demandProof(size)
      const challenge = this.#challenges.get(signKey)
      if (!challenge || Date.now() > challenge.until) return failure(400, 'sig invalid')
      if (known) {
        const range = await this.contents.range(known, challenge.first, challenge.last)
        if (sha1Hex(range).toUpperCase() !== signValue) return failure(10002, 'check failed')
      } else if (!/^[0-9A-F]{40}$/.test(signValue)) return failure(10002, 'check failed')
      this.#challenges.delete(signKey)
    }
    if (known) {
      const { pickCode } = this.drive.add(folder, name, known)
      return {
        request: 'initupload',
        status: 2,
        statuscode: 0,
        statusmsg: '',
        pickcode: pickCode,
        target: `U_1_${folder}`,
        version: '4.0',
      }
    }
    return this.#plan(folder, name, sha1, size)
  }

  #demandProof(size: number): unknown {
    const first = randomInt(size)
    const last = Math.min(size - 1, first + randomInt(maxProof))
    const key = randomUUID()
    this.#challenges.set(key, { first, last, until: Date.now() + this.proofTime })
    return {
      request: 'initupload',
      status: 7,
      statuscode: 701,
      statusmsg: '',
      sign_key: key,
      sign_check: `${first}-${last}`,
      version: '4.0',
    }
  }

  #plan(folder: string, name: string, sha1: string, size: number): unknown {
    const key = `${sha1.slice(0, 8).toLowerCase()}/${randomUUID()}`
    const callback = JSON.stringify({
      callbackUrl: 'http://uplb.115.com/3.0/completeupload.php',
      callbackBody: `bucket=\${bucket}&object=\${object}&size=\${size}&sha1=\${sha1}&target=U_1_${folder}&cid=${folder}`,
      callbackBodyType: 'application/x-www-form-urlencoded',
    })
    const callbackVar = JSON.stringify({ 'x:user_id': this.account.id, 'x:sign': randomUUID(), 'x:name': name })
    this.#planned.set(key, { folder, name, sha1, size, callback, callbackVar })
    return {
      ...{
        request: 'initupload',
        status: 1,
        statuscode: 0,
        statusmsg: '',
        pickcode: '',
        target: `U_1_${folder}`,
        version: '4.0',
      },
      ...{ bucket, object: key, callback: { callback, callback_var: callbackVar } },
    }
  }

  #token(): unknown {
    const { AccessKeyId, ...token } = this.oss.issueToken(this.tokenLifetime)
    return { StatusCode: '200', [this.tokenIdName]: AccessKeyId, ...token }
  }

  /** The object store calls back: the file appears. */
  async #onFinished(object: FinishedObject): Promise<{ readonly body: string }> {
    const { key, content, callback, callbackVar } = object
    const planned = this.#planned.get(key)
    const refuse = (code: number, message: string) => ({
      body: JSON.stringify({ state: false, code, message, data: [] }),
    })
    if (object.bucket !== bucket || !planned) return refuse(990002, '参数错误。')
    if (callback !== planned.callback || callbackVar !== planned.callbackVar) return refuse(990002, 'callback 错误')
    if (content.sha1 !== planned.sha1 || content.size !== planned.size) return refuse(10009, '文件校验失败')
    if (!this.drive.isFolder(planned.folder)) return refuse(990005, '目录不存在')
    this.#planned.delete(key)
    const item = this.drive.add(planned.folder, planned.name, content)
    const data = {
      ...{ aid: 1, cid: planned.folder, file_id: item.id, file_name: item.name, file_size: String(content.size) },
      ...{
        file_ptime: String(seconds(item.created)),
        is_video: 0,
        pick_code: item.pickCode,
        sha1: content.sha1,
        thumb_url: '',
      },
    }
    return { body: JSON.stringify({ state: true, code: 0, message: '', data }) }
  }

  #signature(form: URLSearchParams): string {
    const [userId, fileId, target] = ['userid', 'fileid', 'target'].map((name) => form.get(name) ?? '')
    return uploadSignature(this.account.userKey, userId ?? '', fileId ?? '', target ?? '')
  }
}

export function uploadSignature(userKey: string, userId: string, fileId: string, target: string): string {
  return sha1Hex(`${userKey}${sha1Hex(`${userId}${fileId}${target}0`)}000000`).toUpperCase()
}

export function requestToken(form: URLSearchParams): string {
  const value = (name: string) => form.get(name) ?? ''
  const [fileId, size, signKey, signValue] = ['fileid', 'filesize', 'sign_key', 'sign_val'].map(value)
  const [userId = '', time, version] = ['userid', 't', 'appversion'].map(value)
  return md5Hex(`${tokenSalt}${fileId}${size}${signKey}${signValue}${userId}${time}${md5Hex(userId)}${version}`)
}

function failure(statuscode: number, statusmsg: string): unknown {
  return { request: 'initupload', status: false, statuscode, statusmsg, pickcode: '', target: '', version: '4.0' }
}

function sha1Hex(data: string | Buffer): string {
  return createHash('sha1').update(data).digest('hex')
}

function md5Hex(text: string): string {
  return createHash('md5').update(text).digest('hex')
}
