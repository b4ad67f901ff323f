/**
 * Uploads to the 115 Open double: the hash first, a proof if the vendor has the file, otherwise an object of the object
 * store, whose callback makes it a file.
 */
import { createHash, randomBytes, randomInt } from 'node:crypto'
import type { Content, Contents } from '../contents.js'
import { OssDouble, type FinishedObject } from '../oss.js'
import type { Account } from './account.js'
import { refusals } from './answers.js'
import type { Drive, DriveNode } from './drive.js'
import { required, type Call, type Done } from './files.js'

/** An upload that was begun and is not finished. */
interface Session {
  readonly folder: string
  readonly name: string
  readonly size: number
  readonly sha1: string
  readonly pickCode: string
  readonly object: string
}

/** Part of a file that the client has to have. */
interface Challenge {
  readonly content: Content
  readonly range: string
  readonly proof: string
}

export const bucket = 'fhnfile'
const emptySha1 = 'DA39A3EE5E6B4B0D3255BFEF95601890AFD80709'
const preLength = 128 * 1024
const callback = JSON.stringify({
  callbackUrl: 'http://uplb.115.com/3.0/completeupload.php',
  callbackBody: 'bucket=${bucket}&object=${object}&size=${size}&sha1=${sha1}',
  callbackBodyType: 'application/x-www-form-urlencoded',
})

export class Uploads {
  readonly oss: OssDouble
  /** The status by which a proof is demanded. */
  proofStatus: 6 | 7 | 8 = 7
  /** Milliseconds for which a token of the object store is good. */
  tokenLifetime = 3_600_000
  /** Number of files that were stored without their bytes. */
  rapid = 0
  /** The callback of the next finished object fails; it is then set back. */
  failsCallback = false
  readonly #sessions = new Map<string, Session>()
  readonly #challenges = new Map<string, Challenge>()
  #answers = 0

  constructor(
    private readonly account: Account,
    private readonly drive: Drive,
    private readonly contents: Contents,
  ) {
    this.oss = new OssDouble(contents, { onFinished: (object) => this.#finish(object) })
  }

  readonly calls: Readonly<Record<string, Call>> = {
    'POST /open/upload/init': (fields) => this.#begin(fields),
    'POST /open/upload/resume': (fields) => this.#resume(fields),
    'GET /open/upload/get_token': () => this.#token(),
  }

  async #begin(fields: URLSearchParams): Promise<Done> {
    const file = this.#fileOf(fields)
    const preid = required(fields, 'preid')
    if (!/^[0-9A-F]{40}$/.test(preid)) throw refusals.parameters()
    const known = this.contents.find(file.sha1)
    if (known?.size !== file.size) return this.#await(file)
    if ((await this.#digest(known, 0, preLength - 1)) !== preid) throw refusals.proof()
    const key = fields.get('sign_key')
    if (known.sha1 !== emptySha1) {
      if (key === null) return this.#challenge(known)
      const challenge = this.#challenges.get(key)
      if (challenge?.content.sha1 !== known.sha1 || challenge.proof !== fields.get('sign_val')) throw refusals.proof()
      this.#challenges.delete(key)
    }
    this.rapid++
    const node = this.drive.create(file.folder, file.name, known)
    return { data: { status: 2, pick_code: node.pickCode, file_id: node.id, target: fields.get('target') } }
  }

  #fileOf(fields: URLSearchParams): Omit<Session, 'pickCode' | 'object'> {
    const [name, size, target, sha1] = ['file_name', 'file_size', 'target', 'fileid'].map((each) =>
      required(fields, each),
    ) as [string, string, string, string]
    const folder = /^U_1_(\d+)$/.exec(target)?.[1]
    if (folder === undefined || !/^\d+$/.test(size) || !/^[0-9A-F]{40}$/.test(sha1)) throw refusals.parameters()
    if (!this.drive.isFolder(folder)) throw refusals.missing()
    return { folder, name, size: Number(size), sha1 }
  }

  async #challenge(content: Content): Promise<Done> {
    const first = randomInt(content.size)
    const last = Math.min(content.size - 1, first + randomInt(128))
    const key = randomBytes(8).toString('hex')
    const range = `${first}-${last}`
    this.#challenges.set(key, { content, range, proof: await this.#digest(content, first, last) })
    return { data: { status: this.proofStatus, sign_key: key, sign_check: range, pick_code: '', file_id: '' } }
  }

  #await(file: Omit<Session, 'pickCode' | 'object'>): Done {
    const session = { ...file, pickCode: this.drive.newPickCode(), object: randomBytes(20).toString('hex') }
    this.#sessions.set(session.pickCode, session)
    return { data: { status: 1, file_id: '', ...this.#place(session) } }
  }

  /** Where to upload, and what to demand of the object store. */
  #place(session: Session): object {
    const demanded = { callback, callback_var: this.#callbackVar(session) }
    // Sometimes it is in a list.
    const isListed = ++this.#answers % 2 === 0
    return {
      pick_code: session.pickCode,
      bucket,
      object: session.object,
      callback: isListed ? [demanded] : demanded,
      target: `U_1_${session.folder}`,
    }
  }

  #callbackVar({ pickCode, folder }: Session): string {
    return JSON.stringify({ 'x:pick_code': pickCode, 'x:user_id': this.account.userId, 'x:target': `U_1_${folder}` })
  }

  #resume(fields: URLSearchParams): Done {
    const session = this.#sessions.get(required(fields, 'pick_code'))
    const [size, target, sha1] = ['file_size', 'target', 'fileid'].map((each) => required(fields, each))
    if (!session) throw refusals.pickCode()
    if (String(session.size) !== size || `U_1_${session.folder}` !== target || session.sha1 !== sha1) {
      throw refusals.parameters()
    }
    return { data: this.#place(session) }
  }

  #token(): Done {
    const { AccessKeyId, AccessKeySecret, SecurityToken, Expiration } = this.oss.issueToken(this.tokenLifetime)
    const endpoint = 'http://oss-cn-shenzhen.aliyuncs.com'
    return { data: { endpoint, AccessKeyId, AccessKeySecret, SecurityToken, expiration: Expiration } }
  }

  /** The server that the object store calls back. */
  async #finish(object: FinishedObject): Promise<{ readonly body: string }> {
    const session = [...this.#sessions.values()].find((each) => each.object === object.key)
    const isDemanded = session && object.callback === callback && object.callbackVar === this.#callbackVar(session)
    if (!session || !isDemanded || object.bucket !== bucket) return failed('回调参数错误')
    if (this.failsCallback) {
      this.failsCallback = false
      return failed('系统繁忙')
    }
    const { content } = object
    if (content.sha1 !== session.sha1 || content.size !== session.size) return failed('文件校验失败')
    if (!this.drive.isFolder(session.folder)) return failed('目录不存在')
    this.#sessions.delete(session.pickCode)
    return done(this.drive.create(session.folder, session.name, content, session.pickCode))
  }

  async #digest(content: Content, first: number, last: number): Promise<string> {
    const bytes = await this.contents.range(content, first, Math.min(last, content.size - 1))
    return createHash('sha1').update(bytes).digest('hex').toUpperCase()
  }
}

function done({ id, parent, name, content, pickCode }: DriveNode): { readonly body: string } {
  const data = {
    ...{ pick_code: pickCode, file_id: id, file_size: content?.size, sha1: content?.sha1, cid: parent },
    ...{ file_name: name, thumb_url: '' },
  }
  return { body: JSON.stringify({ state: true, code: 0, message: '', data }) }
}

function failed(message: string): { readonly body: string } {
  return { body: JSON.stringify({ state: false, code: 10002, message, data: [] }) }
}
