/** Reads the answers of both APIs of 115 to the offer of a file. */
import { field, textOf } from '../lib/json-api/lenient.js'
import { protocolViolation } from './errors.js'
import type { Challenge, UploadPlace } from './hash-uploads.js'

/** Returns the place for the bytes. `callback`: the part of the answer with the texts for the object store. */
export function placeOf(data: unknown, callback: unknown, pickCode: string): UploadPlace {
  const place = {
    bucket: textOf(field(data, 'bucket')),
    key: textOf(field(data, 'object')),
    pickCode,
    callback: {
      callback: textOf(field(callback, 'callback')),
      callbackVar: textOf(field(callback, 'callback_var')),
    },
  }
  if (place.bucket === '' || place.key === '' || place.callback.callback === '') {
    throw protocolViolation('named no place for the upload')
  }
  return place
}

/** The range of which the server wants a proof. */
export function challengeOf(data: unknown): Challenge {
  const [, first, last] = /^(\d{1,15})-(\d{1,15})$/.exec(textOf(field(data, 'sign_check'))) ?? []
  const key = textOf(field(data, 'sign_key'))
  if (key === '' || first === undefined || last === undefined) throw protocolViolation('asks for a strange proof')
  return { key, first: Number(first), last: Number(last) }
}
