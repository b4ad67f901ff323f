/** The calls of 115's official API for uploads. */
import type { Source } from '../../src/contract/call-options.js'
import type { OssToken } from '../lib/cloud/aliyun-oss.js'
import { field, flagOf, listOf, numberOf, textOf, timeOf } from '../lib/json-api/lenient.js'
import { rangeOf } from '../lib/cloud/source-range.js'
import { protocolViolation } from './errors.js'
import { upperSha1, type HashedFile, type Offer, type UploadPlace, type UploadServer } from './hash-uploads.js'
import type { Open115Api } from './open-api.js'
import { errorOf, Open115Answer } from './open-errors.js'
import { challengeOf, placeOf } from './upload-answers.js'

/** Bytes of the beginning of a file whose digest the server wants. */
const preLength = 128 * 1024

export class Open115Uploads implements UploadServer {
  constructor(private readonly api: Open115Api) {}

  async preparedOffer(file: HashedFile, source: Source, signal: AbortSignal | undefined): Promise<Offer> {
    const facts = {
      file_name: file.name,
      file_size: file.size,
      ...identityOf(file),
      preid: upperSha1(await rangeOf(source, 0, preLength, signal)),
    }
    return async (proof) => {
      const proved = proof && { sign_key: proof.key, sign_val: proof.digest }
      const { data } = await this.api.change('/open/upload/init', { ...facts, ...proved }, { signal })
      const status = numberOf(field(data, 'status'))
      if (status === 2) return { storedId: storedIdOf(data) }
      if (status === 1) return { place: openPlaceOf(data) }
      if (status === undefined || ![6, 7, 8].includes(status)) throw protocolViolation('refuses the upload')
      return { challenge: challengeOf(data) }
    }
  }

  async offered(file: HashedFile, { pickCode }: UploadPlace, signal: AbortSignal | undefined): Promise<UploadPlace> {
    const fields = { file_size: file.size, ...identityOf(file), pick_code: pickCode }
    const { data } = await this.api.change('/open/upload/resume', fields, { signal, repeatable: true })
    return openPlaceOf(data)
  }

  storedId({ sha1 }: HashedFile, answer: unknown): string {
    if (!flagOf(field(answer, 'state'))) {
      throw errorOf(new Open115Answer(textOf(field(answer, 'code')), textOf(field(answer, 'message'))))
    }
    const data = field(answer, 'data')
    const stored = textOf(field(data, 'sha1')).toLowerCase()
    if (stored !== '' && stored !== sha1) throw protocolViolation('stored other bytes than were sent')
    return storedIdOf(data)
  }

  async requestToken(): Promise<OssToken> {
    const { data } = await this.api.get('/open/upload/get_token', {}, {})
    const token = {
      id: textOf(field(data, 'AccessKeyId')),
      secret: textOf(field(data, 'AccessKeySecret')),
      securityToken: textOf(field(data, 'SecurityToken')),
      endpoint: textOf(field(data, 'endpoint')),
    }
    if (Object.values(token).includes('')) throw protocolViolation('sent no token for the object store')
    return { ...token, until: timeOf(field(data, 'expiration') ?? field(data, 'Expiration')) }
  }
}

/** What the server recognizes an upload by. */
function identityOf({ folder, sha1 }: HashedFile) {
  return { target: `U_1_${folder}`, fileid: sha1.toUpperCase() }
}

/** The callback of an answer may be in a list. */
function openPlaceOf(data: unknown): UploadPlace {
  const callbacks = field(data, 'callback')
  const callback = Array.isArray(callbacks) ? listOf(callbacks)[0] : callbacks
  return placeOf(data, callback, textOf(field(data, 'pick_code')))
}

function storedIdOf(data: unknown): string {
  const id = textOf(field(data, 'file_id'))
  if (id === '') throw protocolViolation('sent no id of the new file')
  return id
}
