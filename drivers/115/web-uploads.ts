/** The calls of 115's web API for uploads. */
import { createHash } from 'node:crypto'
import type { Source } from '../../src/contract/call-options.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import type { OssToken } from '../lib/cloud/aliyun-oss.js'
import { Lease } from '../lib/cloud/lease.js'
import { field, flagOf, numberOf, parseJson, textOf, timeOf } from '../lib/json-api/lenient.js'
import { Ec115 } from './ec115.js'
import { errorOf, hasCode, isSuccess, protocolViolation } from './errors.js'
import type { FilesApi } from './files-api.js'
import type { HashedFile, Offer, Proof, UploadPlace, UploadServer } from './hash-uploads.js'
import type { WebSession } from './web-session.js'
import { challengeOf, placeOf } from './upload-answers.js'

interface UploadAccount {
  readonly userId: string
  readonly userKey: string
  /** Maximum bytes of a file; 0: not known. */
  readonly sizeLimit: number
}

const endpoint = 'oss-cn-shenzhen.aliyuncs.com'
/** Milliseconds for which the facts about the account are used. */
const accountLifetime = 3_600_000
/** Values of `statuscode` in answers without error: the second one asks for a proof. */
const goodCodes = [0, 701]
/** The signature is refused: it was made too long ago, or with facts about the account that are not valid any more. */
const refusedCodes = [400, 402]

export class WebUploads implements UploadServer {
  readonly #accounts: Lease<UploadAccount>

  constructor(
    private readonly session: WebSession,
    private readonly files: FilesApi,
  ) {
    this.#accounts = new Lease({
      request: () => this.#account(),
      lifetime: accountLifetime,
      isExpired: (error) => hasCode(error, ...refusedCodes),
    })
  }

  /** The id of the account. */
  userId(signal?: AbortSignal): Promise<string> {
    return this.#accounts.use(async ({ userId }) => userId, signal)
  }

  preparedOffer(file: HashedFile, _source: Source, signal: AbortSignal | undefined): Promise<Offer> {
    const offer: Offer = (proof) =>
      this.#accounts.use(async (account) => {
        const { sizeLimit } = account
        if (sizeLimit > 0 && file.size > sizeLimit) {
          throw new GatewayError('too_large', { reason: `this account may store files of up to ${sizeLimit} bytes` })
        }
        return this.#answerOf(file, await this.#send(file, proof, account, signal), signal)
      }, signal)
    return Promise.resolve(offer)
  }

  /** The API has no call for that, and the place does not change. */
  offered(_file: HashedFile, place: UploadPlace): Promise<UploadPlace> {
    return Promise.resolve(place)
  }

  storedId({ sha1 }: HashedFile, answer: unknown): string {
    if (!isSuccess(answer)) throw errorOf(answer)
    const stored = textOf(field(answer, 'data', 'sha1')).toLowerCase()
    if (stored !== '' && stored !== sha1) throw protocolViolation('stored other bytes than were sent')
    const id = textOf(field(answer, 'data', 'file_id'))
    if (id === '') throw protocolViolation('sent no id of the new file')
    return id
  }

  async #send(file: HashedFile, proof: Proof | undefined, account: UploadAccount, signal: AbortSignal | undefined) {
    const { appVersion } = this.session
    const { userId, userKey } = account
    const [sha1, target, time] = [file.sha1.toUpperCase(), `U_1_${file.folder}`, Date.now()]
    const [signKey, signValue] = [proof?.key ?? '', proof?.digest ?? '']
    const signed = { userId, userKey, sha1, size: file.size, target, time, appVersion, signKey, signValue }
    const fields = {
      appid: '0',
      appversion: appVersion,
      fileid: sha1,
      filename: file.name,
      filesize: String(file.size),
      sig: uploadSignature(signed),
      ...(proof && { sign_key: signKey, sign_val: signValue }),
      t: String(time),
      target,
      token: uploadToken(signed),
      topupload: 'true',
      userid: userId,
    }
    const form = new URLSearchParams(fields)
    form.sort()
    const cipher = new Ec115()
    const url = new URL('https://uplb.115.com/4.0/initupload.php')
    url.searchParams.set('k_ec', cipher.token(time))
    const { data } = await this.session.call({
      url,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: cipher.encrypt(form.toString()),
      decode: (bytes) => decoded(bytes, cipher),
      accepts: (answer) => field(answer, 'statuscode') !== undefined,
      signal,
    })
    return data
  }

  async #account(): Promise<UploadAccount> {
    const { data } = await this.session.call({
      method: 'POST',
      url: new URL('https://proapi.115.com/app/uploadinfo'),
      repeatable: true,
    })
    const [userId, userKey] = [textOf(field(data, 'user_id')), textOf(field(data, 'userkey'))]
    if (userId === '' || userKey === '') throw protocolViolation('sent no key for uploads')
    const allowed = field(data, 'upload_allowed')
    const isStated = typeof allowed === 'boolean' || textOf(allowed) !== ''
    if (isStated && !flagOf(allowed)) {
      throw new GatewayError('denied', { reason: '115 allows no uploads to this account' })
    }
    return { userId, userKey, sizeLimit: numberOf(field(data, 'size_limit')) ?? 0 }
  }

  async requestToken(): Promise<OssToken> {
    const { data } = await this.session.call({ url: new URL('https://uplb.115.com/3.0/gettoken.php') })
    const [id, secret, securityToken] = [
      textOf(field(data, 'AccessKeyId')) || textOf(field(data, 'AccessKeyID')),
      textOf(field(data, 'AccessKeySecret')),
      textOf(field(data, 'SecurityToken')),
    ]
    if (textOf(field(data, 'StatusCode')) !== '200' || id === '' || secret === '' || securityToken === '') {
      throw protocolViolation('sent no token for uploads')
    }
    return { id, secret, securityToken, endpoint, until: timeOf(field(data, 'Expiration')) }
  }

  async #answerOf(file: HashedFile, data: unknown, signal: AbortSignal | undefined) {
    const code = numberOf(field(data, 'statuscode')) ?? 0
    if (!goodCodes.includes(code)) throw errorOf({ code, statusmsg: field(data, 'statusmsg') })
    switch (numberOf(field(data, 'status'))) {
      case 1:
        return { place: placeOf(data, field(data, 'callback'), '') }
      case 2: {
        const { id, name, sha1 } = await this.files.withPickCode(textOf(field(data, 'pickcode')), signal)
        // Another one would lose its name.
        if (name !== file.name || sha1 !== file.sha1) throw protocolViolation('names another file than the new one')
        return { storedId: id }
      }
      case 7:
        return { challenge: challengeOf(data) }
      default:
        throw protocolViolation('has not begun the upload')
    }
  }
}

/** An answer is encrypted, unless the server has refused the request before it has read it. */
function decoded(bytes: Buffer, cipher: Ec115): unknown {
  if (bytes[0] === '{'.charCodeAt(0)) {
    try {
      return parseJson(bytes.toString())
    } catch {
      // It is encrypted, and begins like JSON by chance.
    }
  }
  try {
    return parseJson(cipher.decrypt(bytes))
  } catch (error) {
    throw isGatewayError(error) ? error : protocolViolation('sent an answer that cannot be read')
  }
}

// The signatures by which the API recognizes its own programs when they begin an upload

export interface SignedUpload {
  readonly userId: string
  readonly userKey: string
  /** SHA-1 of the file, in upper-case hexadecimal. */
  readonly sha1: string
  /** The size in bytes. */
  readonly size: number
  /** `U_1_` and the id of the folder. */
  readonly target: string
  /** The time of the request in milliseconds since 1970. */
  readonly time: number
  readonly appVersion: string
  /** The proof that the server has asked for; empty texts without one. */
  readonly signKey: string
  readonly signValue: string
}

const salt = 'Qclm8MGWUv59TnrR0XPg'

function hexDigest(algorithm: 'sha1' | 'md5', text: string): string {
  return createHash(algorithm).update(text).digest('hex')
}

/** The form field `sig`. */
export function uploadSignature({ userId, userKey, sha1, target }: SignedUpload): string {
  const inner = hexDigest('sha1', `${userId}${sha1}${target}0`)
  return hexDigest('sha1', `${userKey}${inner}000000`).toUpperCase()
}

/** The form field `token`. */
export function uploadToken(upload: SignedUpload): string {
  const { userId, sha1, size, time, appVersion, signKey, signValue } = upload
  const parts = [salt, sha1, size, signKey, signValue, userId, time, hexDigest('md5', userId), appVersion]
  return hexDigest('md5', parts.join(''))
}
