/** Uploads: put (the body is the file) and form (a part of a multipart form is the file). */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import type { Source } from '../../../src/contract/call-options.js'
import { etagOf } from '../../../src/tree/preconditions.js'
import { receiveBody } from '../../lib/request-body.js'
import { signalOf } from '../api/http-api.js'
import { endpoint, type Call, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { filePart, noFilePart } from '../files/form-upload.js'
import { changeRefusals, malformedForm, pathRefusals, coreRefusal, taskRefusals } from '../api/refusals.js'
import { taskData, taskObject } from '../compat/task-object.js'
import { notDigest, notInteger, uploadHeaders, type UploadHeaders } from '../files/upload-headers.js'
import { verifiedSource } from '../../../src/contract/sources.js'

export const noUploads: Refusal = {
  code: 500,
  text: 'upload not supported',
  error: 'unsupported',
  when: 'the storage does not support uploads',
}
const noParts: Refusal = {
  code: 400,
  text: 'an upload of a part is not supported',
  error: 'invalid',
  when: 'the request has the header `Content-Range`',
}
const noConditions: Refusal = {
  code: 400,
  text: 'a task has no preconditions',
  error: 'invalid',
  when: 'the request has `As-Task: true`, and `If-Match` or `If-None-Match`',
}
const noForms: Refusal = {
  ...noUploads,
  code: 405,
  text: "Current storage doesn't support upload",
  error: 'unsupported',
}

/** The task of an upload with `As-Task`, else null. */
const data = z.object({ task: taskData }).nullable()
/** Errors of requests that announce a file. */
export const announcedFileRefusals: readonly Refusal[] = [
  ...pathRefusals,
  ...changeRefusals,
  {
    code: 400,
    text: 'File-Path …',
    error: 'invalid',
    when: 'the header is missing or malformed, or its path is not that of a file',
  },
  { code: 400, text: notDigest('x-file-…', '…'), error: 'invalid' },
  coreRefusal('exists', {}, '`Overwrite` is `false`'),
  coreRefusal('denied', { detail: 'system_file' }, 'the settings exclude files of this name'),
]
/** The content is not what was announced: the file is not stored. */
export const wrongDigest: Refusal = {
  code: 400,
  text: 'the content does not have the announced …',
  error: 'invalid',
  when: 'a digest does not match; the file is not stored',
}
const refusals: readonly Refusal[] = [
  ...announcedFileRefusals,
  ...taskRefusals,
  { code: 400, text: notInteger('X-File-Size'), error: 'invalid' },
  wrongDigest,
  { code: 400, text: '… bytes were announced, … came', error: 'invalid' },
  {
    code: 400,
    text: 'the body is longer than the announced … bytes',
    error: 'invalid',
    when: '`X-File-Size` is less than the size of the body',
  },
  {
    code: 400,
    text: 'the body ended after … of … bytes',
    error: 'invalid',
    when: '`X-File-Size` is greater than the size of the body',
  },
  noParts,
  noConditions,
  {
    code: 412,
    text: 'If-Match does not hold',
    error: 'precondition_failed',
    when: 'the file does not exist, or was changed',
  },
  { code: 412, text: 'If-None-Match does not hold', error: 'precondition_failed', when: 'the file exists' },
]

export const uploadEndpoints = [
  endpoint({
    method: 'put',
    path: '/api/fs/put',
    tag: 'Uploads',
    summary: 'Store the body of the request as a file',
    description:
      'Creates missing parent folders. Success means that the whole file is stored. The header `ETag` of the response ' +
      'is the entity tag of the new content.',
    access: 'guest',
    headers: uploadHeaders,
    content: { type: 'application/octet-stream', description: 'The content of the file, of any type.' },
    data,
    refusals: [...refusals, noUploads],
    answer: async (call) => store(call, await receiveBody(call.context.req, call.headers), noUploads),
  }),

  endpoint({
    method: 'put',
    path: '/api/fs/form',
    tag: 'Uploads',
    summary: 'Store a part of a form as a file',
    description: 'As `put`. If the form has several parts `file`, only the first is stored.',
    access: 'guest',
    headers: uploadHeaders,
    content: { type: 'multipart/form-data', description: 'A form (RFC 7578).', part: 'file' },
    data,
    refusals: [...refusals, noForms, malformedForm, noFilePart],
    async answer(call) {
      const part = await filePart(call.context.req, signalOf(call.context.res))
      try {
        return await store(call, { ...call.headers, rereadable: false, read: async () => part }, noForms)
      } finally {
        part.destroy()
      }
    },
  }),
]

/** Stores the source. As a task, resolves when the content has been received. */
async function store(
  { context, api, headers, principal }: Call<unknown, unknown, UploadHeaders, Principal>,
  source: Source,
  uploadsUnsupported: Refusal,
): Promise<z.input<typeof data>> {
  // A partial PUT must not be stored as a complete file (RFC 9110 §14.5).
  if (context.req.headers['content-range'] !== undefined) throw refused(noParts)
  const { path, createOnly, modified, password, ifMatch, ifNoneMatch } = headers
  const fs = api.gateway.as(principal)
  const signal = signalOf(context.res)
  const options = { createOnly, modified, password, parents: true }
  return withResponses({ unsupported: uploadsUnsupported }, async () => {
    if (!headers.asTask) {
      const { entry } = await fs.write(path, verifiedSource(source), { ...options, ifMatch, ifNoneMatch, signal })
      context.set('ETag', etagOf(entry))
      return null
    }
    // The file may be changed until the task stores it.
    if (ifMatch !== undefined || ifNoneMatch !== undefined) throw refused(noConditions)
    await fs.assertWritable(path, { ...options, signal })
    const body = fs.fromClient(verifiedSource(source))
    return { task: taskObject(await api.gateway.submitUpload(principal, path, body, { ...options, signal })) }
  })
}
