/** Uploads: put (the raw body) and form (a part of one). */
import { z } from 'zod'
import type { Source } from '../../../src/driver.js'
import { isGatewayError } from '../../../src/errors.js'
import type { Principal } from '../../../src/principal.js'
import { uploadRequest } from '../../../src/tasks/upload-tasks.js'
import { bodySource } from '../../lib/body.js'
import { signalOf } from '../context.js'
import { endpoint, type Call, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { filePart } from '../form-upload.js'
import { changeRefusals, pathRefusals, taskRefusals } from '../refusals.js'
import { taskData, taskObject } from '../task-object.js'
import { uploadHeaders, type UploadHeaders } from '../upload-headers.js'
import { verifiedSource } from '../../lib/verified-source.js'

/** What clients know for a storage that takes no uploads. */
const noUploads: Refusal = { code: 500, text: 'upload not supported', when: 'the storage takes no files' }
const noParts: Refusal = {
  code: 400,
  text: 'an upload of a part is not supported',
  when: 'the header `Content-Range` says that the body is no more than that',
}
const noForms: Refusal = { ...noUploads, code: 405, text: "Current storage doesn't support upload" }

/** Null once the file is stored; a task where one is asked for. */
const data = z.object({ task: taskData }).nullable()
const refusals: readonly Refusal[] = [
  ...pathRefusals,
  ...changeRefusals,
  ...taskRefusals,
  { code: 400, text: 'File-Path …', when: 'it is missing, malformed, or names no file' },
  { code: 400, text: 'X-File-Size is not an integer' },
  { code: 400, text: 'x-file-… is not a digest of … hexadecimal digits' },
  { code: 400, text: 'the content does not have the announced …', when: 'it has another digest; nothing is stored' },
  { code: 400, text: '… bytes were announced, … came' },
  { code: 400, text: 'the body is longer than the announced … bytes', when: '`X-File-Size` says less' },
  { code: 400, text: 'the body ended after … of … bytes', when: '`X-File-Size` says more' },
  noParts,
  { code: 403, text: 'file exists', when: '`Overwrite` is `false`' },
  { code: 403, text: 'system file upload ignored', when: 'settings say that such files are not wanted' },
]

export const uploadEndpoints = [
  endpoint({
    method: 'put',
    path: '/api/fs/put',
    tag: 'Uploads',
    summary: 'Store the body of the request as a file',
    description: 'Folders above it are made. Success means that the file is stored, as a whole.',
    access: 'guest',
    headers: uploadHeaders,
    content: { type: 'application/octet-stream', description: 'The content of the file; of any type.' },
    data,
    refusals: [...refusals, noUploads],
    answer: (call) => store(call, bodySource(call.context.req, call.headers), noUploads),
  }),

  endpoint({
    method: 'put',
    path: '/api/fs/form',
    tag: 'Uploads',
    summary: 'Store a part of a form as a file',
    description: 'As `put`. Where the form has several such parts, the first one counts.',
    access: 'guest',
    headers: uploadHeaders,
    content: { type: 'multipart/form-data', description: 'A form (RFC 7578).', part: 'file' },
    data,
    refusals: [
      ...refusals,
      noForms,
      { code: 400, text: 'the form is malformed' },
      { code: 500, text: 'http: no such file', when: 'the form has no part `file`' },
    ],
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

/** Answers once the bytes are stored; as a task, once they are received. */
async function store(
  { context, door, headers, principal }: Call<unknown, unknown, UploadHeaders, Principal>,
  source: Source,
  readOnly: Refusal,
): Promise<z.input<typeof data>> {
  // RFC 9110 §14.5: a part must never be taken for the whole.
  if (context.req.headers['content-range'] !== undefined) throw new WireError(noParts.code, noParts.text)
  const { path, createOnly, modified, password } = headers
  const fs = door.gateway.as(principal)
  const signal = signalOf(context.res)
  const change = { createOnly, modified, password, parents: true }
  try {
    if (!headers.asTask) {
      await fs.write(path, verifiedSource(source), { ...change, signal })
      return null
    }
    await fs.assertWritable(path, { ...change, signal })
    const { mounts, spool, tasks } = door.gateway
    const received = await spool.receive(fs.fromClient(verifiedSource(source)), signal, true)
    try {
      const task = await tasks.add(principal, uploadRequest(principal, path, received, change, mounts))
      return { task: taskObject(task) }
    } catch (error) {
      await received.dispose()
      throw error
    }
  } catch (error) {
    if (isGatewayError(error, 'exists')) throw new WireError(403, 'file exists')
    if (isGatewayError(error, 'unsupported')) throw new WireError(readOnly.code, readOnly.text)
    throw error
  }
}
