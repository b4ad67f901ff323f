/** Uploads: put (the body is the file) and form (a part of a multipart form is the file). */
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import type { Source } from '../../../src/contract/call-options.js'
import { asVisitor } from '../../../src/shares/visitor-errors.js'
import { etagOf } from '../../../src/tree/preconditions.js'
import { receiveBody } from '../../lib/request-body.js'
import { signalOf } from '../api/http-api.js'
import { endpoint, type Call, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { filePart, noFilePart } from '../files/form-upload.js'
import {
  changeRefusals,
  malformedForm,
  pathRefusals,
  coreRefusal,
  taskRefusals,
  visitorRefusals,
  visitorUploadRefusals,
} from '../api/refusals.js'
import { isBelowShare } from '../../../src/shares/path-in-share.js'
import { openForVisitor, type VisitorPath } from '../api/visitors.js'
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

const noTasks: Refusal = {
  code: 400,
  text: 'uploads to a share are no tasks',
  error: 'invalid',
  when: 'the path is in a share, and the request has `As-Task: true`',
}

/** The task of an upload with `As-Task`; for a visitor of a share the name of the file; else null. */
const data = z
  .union([
    z.object({ task: taskData }),
    z.object({ name: z.string().describe('Of the file of a visitor: another one if that exists already.') }),
  ])
  .nullable()
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
  ...visitorRefusals,
  ...visitorUploadRefusals,
  noTasks,
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

/** Which uploads are those to shares. */
export const uploadsToShares = {
  are: ({ headers: { path } }: { readonly headers: Pick<UploadHeaders, 'path'> }) => isBelowShare(path),
  seem: ({ headers }: IncomingMessage) => /^(?:\/|%2f)?(?:@|%40)s(?:\/|%2f|$)/i.test(String(headers['file-path'])),
}

export const uploadEndpoints = [
  endpoint({
    method: 'put',
    path: '/api/fs/put',
    tag: 'Uploads',
    summary: 'Store the body of the request as a file',
    description:
      'Creates missing parent folders. Success means that the whole file is stored. The header `ETag` of the response ' +
      'is the entity tag of the new content. Visitors of a share upload to `/@s/ID/NAME` without a token, with the code ' +
      'of the share in the header `Password`.',
    access: 'guest',
    headers: uploadHeaders,
    content: { type: 'application/octet-stream', description: 'The content of the file, of any type.' },
    data,
    refusals: [...refusals, noUploads],
    visitors: {
      ...uploadsToShares,
      async answer(call) {
        const visited = await opened(call)
        return storeShared(call, visited, await receiveBody(call.context.req, call.headers), noUploads)
      },
    },
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
    visitors: {
      ...uploadsToShares,
      async answer(call) {
        const visited = await opened(call)
        return withPart(call, (source) => storeShared(call, visited, source, noForms))
      },
    },
    answer: (call) => withPart(call, (source) => store(call, source, noForms)),
  }),
]

type UploadCall<Who> = Call<unknown, unknown, UploadHeaders, Who>

/** Runs `work` with the part of the form that is the file. */
async function withPart<Result>(
  { context, headers }: Pick<UploadCall<unknown>, 'context' | 'headers'>,
  work: (source: Source) => Promise<Result>,
): Promise<Result> {
  const part = await filePart(context.req, signalOf(context.res))
  try {
    return await work({ ...headers, rereadable: false, read: async () => part })
  } finally {
    part.destroy()
  }
}

/** A partial PUT must not be stored as a complete file (RFC 9110 §14.5). */
function assertWhole({ req }: UploadCall<unknown>['context']): void {
  if (req.headers['content-range'] !== undefined) throw refused(noParts)
}

/** Opens the share of an upload, before its body is read. */
async function opened(call: UploadCall<undefined>): Promise<VisitorPath> {
  const { api, context, headers } = call
  assertWhole(context)
  if (headers.asTask) throw refused(noTasks)
  return openForVisitor(api, context, headers.path, headers.password)
}

/** Stores the source for a visitor. */
async function storeShared(
  { context, headers }: UploadCall<undefined>,
  { share, at }: VisitorPath,
  source: Source,
  uploadsUnsupported: Refusal,
): Promise<z.input<typeof data>> {
  const { createOnly, modified, ifMatch, ifNoneMatch } = headers
  const options = { createOnly, modified, ifMatch, ifNoneMatch, signal: signalOf(context.res) }
  const { entry } = await withResponses({ unsupported: uploadsUnsupported }, () =>
    asVisitor(() => share.write(at, verifiedSource(source), options)),
  )
  if (share.share.mode === 'both') context.set('ETag', etagOf(entry))
  return { name: entry.name }
}

/** Stores the source. As a task, resolves when the content has been received. */
async function store(
  { context, api, headers, principal }: UploadCall<Principal>,
  source: Source,
  uploadsUnsupported: Refusal,
): Promise<z.input<typeof data>> {
  assertWhole(context)
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
