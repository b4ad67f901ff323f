/** Uploads in chunks: each chunk of a file is the body of a request of its own. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { cleanPath } from '../../../src/base/path.js'
import type { UploadSession } from '../../../src/uploads/upload-session.js'
import { bodySource, drain } from '../../lib/request-body.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, toErrorResponse, withResponses, worded } from '../api/errors.js'
import { queryText } from '../api/fields.js'
import { signalOf, type Exchange, type HttpApi } from '../api/http-api.js'
import { malformedPath, relativePath, storageRefusals, withNames } from '../api/refusals.js'
import { chunkedUploadHeaders, notInteger } from '../files/upload-headers.js'
import { announcedFileRefusals, noUploads, uploadsToShares, wrongDigest } from './upload.js'

const mebibyte = 1024 * 1024

const uploadMissing: Refusal = {
  code: 404,
  text: 'upload not found',
  error: 'record_missing',
  when: 'the upload was never started, aborted, replaced, idle for 30 minutes, or completed some minutes ago',
}
const uploadOfOther: Refusal = {
  code: 403,
  text: 'the upload belongs to another user',
  error: 'denied',
  when: 'another user has started the upload',
}
const chunkInFlight: Refusal = {
  code: 409,
  text: 'the chunk is being received',
  error: 'busy',
  when: 'another request sends the same chunk',
}
const switchedOff: Refusal = {
  code: 400,
  text: 'multipart upload is disabled',
  error: 'unsupported',
  when: 'the setting is off',
}
const tooMany: Refusal = {
  code: 429,
  text: 'too many uploads are open',
  error: 'throttled',
  when: 'a limit is reached',
}
const notToShares: Refusal = {
  code: 400,
  text: 'a file is uploaded to a share in one request',
  error: 'unsupported',
  when: 'the path is in a share',
}
const sessionRefusals = [uploadMissing, uploadOfOther]
/**
 * The answer to a chunk without index. The schema of the headers does not give it: errors of a chunk have the snapshot
 * of the upload.
 */
const indexMissing: Refusal = { code: 400, text: 'X-Chunk-Index is missing', error: 'invalid' }
const whichMissing: Refusal = { code: 400, text: 'upload_id: is missing, as are path and size', error: 'invalid' }
/** The upload itself has failed: the state of the snapshot says whether another `init` can continue it. */
const failedCode = 400
const failures = withNames(
  [
    'exists',
    'invalid',
    'denied',
    'password_required',
    'unauthenticated',
    'precondition_failed',
    'locked',
    'not_found',
    'parent_missing',
    'not_folder',
    'is_folder',
    'unsupported',
    'too_large',
    'no_space',
    'busy',
    'timeout',
    'internal',
    ...storageRefusals.map(({ error }) => error),
  ],
  { code: failedCode, text: '…', when: 'the upload has failed; the message is the reason' },
)

const states = ['receiving', 'completed', 'failed_retriable', 'failed_permanent', 'aborted'] as const
const snapshotShape = {
  upload_id: z.string(),
  state: z.enum(states),
  attempt: z.int().describe('Counted from 1. Each one after a failure starts with what the storage has kept.'),
  path: z.string(),
  size: z.int().describe('Bytes of the file.'),
  chunk_size: z.int().describe('Bytes of each chunk but the last.'),
  total_chunks: z.int(),
  received: z.array(z.array(z.int())).describe('Ranges of received chunks: `[first, last]`, both inclusive.'),
  received_bytes: z.int(),
  frontier: z.int().describe('The next chunk: all before it are received.'),
  storage_progress: z.number().describe('Percent of the file that the storage has taken.'),
  error: z.string().optional().describe('Why the upload has failed.'),
}
const snapshotData = z.object(snapshotShape).meta({ id: 'MultipartUpload' })
const refusalData = {
  schema: z
    .object({ ...snapshotShape, state: z.enum([...states, '']).describe('Empty: there is no such upload.') })
    .meta({ id: 'RefusedMultipartUpload' }),
  empty: {
    upload_id: '',
    state: '',
    attempt: 0,
    path: '',
    size: 0,
    chunk_size: 0,
    total_chunks: 0,
    received: [],
    received_bytes: 0,
    frontier: 0,
    storage_progress: 0,
  } satisfies Omit<Snapshot, 'state'> & { readonly state: '' },
}
type Snapshot = z.input<typeof snapshotData>

const idHeader = z.object({
  'x-upload-id': z
    .string('X-Upload-Id is missing')
    .min(1, 'X-Upload-Id is missing')
    .describe('The `upload_id` of `init`.'),
})
const idMissing: Refusal = { code: 400, text: 'X-Upload-Id is missing', error: 'invalid' }

export const multipartEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/multipart/init',
    tag: 'Uploads',
    summary: 'Start or resume an upload in chunks',
    description:
      'The file is stored when all chunks are sent and `complete` has succeeded. An earlier upload of the same user, path ' +
      'and size is resumed if `Last-Modified`, `X-File-Head-Sha256` and the digests are equal, and if it has the first and ' +
      'at least one digest. Otherwise it is aborted. For guests this needs the `upload_id` of the earlier upload. ' +
      '`As-Task` is ignored.',
    access: 'guest',
    headers: chunkedUploadHeaders,
    data: z.object({
      ...snapshotShape,
      resumed: z.boolean().describe('Whether this is an upload that was started before.'),
    }),
    refusalData,
    refusals: [
      ...announcedFileRefusals,
      wrongDigest,
      {
        code: 400,
        text: 'X-File-Size …',
        error: 'invalid',
        when: 'the header is missing, or not an integer greater than 0',
      },
      { code: 400, text: notInteger('X-Chunk-Size'), error: 'invalid' },
      switchedOff,
      tooMany,
      noUploads,
      notToShares,
    ],
    visitors: {
      ...uploadsToShares,
      answer() {
        throw refused(notToShares)
      },
    },
    async answer({ api, context, headers, principal }) {
      const { settings, uploads } = api.gateway
      if (!settings.bool('multipart_enabled')) throw refused(switchedOff)
      const { chunkSize, id, asTask: _asTask, ...file } = headers
      const largest = Math.max(1, Math.floor(settings.number('multipart_chunk_size'))) * mebibyte
      const size = Math.min(largest, Math.max(mebibyte, chunkSize))
      const { session, resumed } = await withResponses({ unsupported: noUploads }, () =>
        uploads.open(principal, file, size, signalOf(context.res), id),
      )
      return { ...snapshotOf(api, session), resumed }
    },
  }),

  endpoint({
    method: 'put',
    path: '/api/fs/multipart/chunk',
    tag: 'Uploads',
    summary: 'Send a chunk of a file',
    description:
      'Chunks may be sent in any order, up to 8 from the next one on; a request waits for its turn. ' +
      'A chunk that was received before may be sent again.',
    access: 'guest',
    headers: idHeader.extend({
      'x-chunk-index': z
        .string()
        .optional()
        .meta({ wire: { type: 'integer', minimum: 0 } })
        .describe('Counted from 0.'),
    }),
    content: { type: 'application/octet-stream', description: 'The bytes of the chunk.' },
    data: snapshotData,
    refusalData,
    refusals: [
      idMissing,
      ...sessionRefusals,
      indexMissing,
      chunkInFlight,
      { code: 400, text: 'the upload has … chunks, counted from 0', error: 'invalid' },
      { code: 400, text: 'chunk … has … bytes, not …', error: 'invalid' },
      {
        code: 429,
        text: 'too many chunks are waiting, try again',
        error: 'throttled',
        when: 'the chunk is too far ahead, or those before it do not arrive',
      },
      ...failures,
    ],
    answer: ({ api, context, headers, principal }) =>
      withSession(api, context, principal, headers['x-upload-id'], async (session) => {
        const { req, res } = context
        const text = headers['x-chunk-index'] ?? ''
        if (text === '') throw refused(indexMissing)
        const index = /^\d{1,15}$/.test(text) ? Number(text) : NaN
        const { size } = bodySource(req)
        const open = () => bodySource(req).read()
        if (!(await session.receive(index, size, open, signalOf(res)))) void drain(req)
      }),
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/multipart/complete',
    tag: 'Uploads',
    summary: 'Store a file whose chunks are all received',
    description: 'Success means that the whole file is stored. May be sent again, also after the connection was lost.',
    access: 'guest',
    headers: idHeader,
    data: snapshotData,
    refusalData,
    refusals: [
      idMissing,
      ...sessionRefusals,
      { code: 400, text: 'cannot complete: … of … bytes received', error: 'invalid', when: 'chunks are missing' },
      ...failures,
    ],
    answer: ({ api, context, headers, principal }) =>
      withSession(api, context, principal, headers['x-upload-id'], (session) =>
        session.complete(signalOf(context.res)),
      ),
  }),

  endpoint({
    method: 'get',
    path: '/api/fs/multipart/status',
    tag: 'Uploads',
    summary: 'Get the state of an upload in chunks',
    access: 'guest',
    query: z.object({
      upload_id: queryText,
      path: queryText.describe(
        'With `size`, instead of `upload_id`: an unfinished upload of the user, who is no guest.',
      ),
      size: z
        .string()
        .regex(/^\d{0,15}$/, 'must be an integer')
        .default('')
        .meta({ wire: { type: 'integer', minimum: 0 } })
        .describe('The size of the file in bytes.'),
    }),
    data: snapshotData,
    refusalData,
    refusals: [...sessionRefusals, whichMissing, ...malformedPath, { ...relativePath, when: 'the path contains `..`' }],
    async answer({ api, context, query, principal }) {
      const { uploads } = api.gateway
      if (query.upload_id !== '') return withSession(api, context, principal, query.upload_id, async () => undefined)
      if (query.path === '' || query.size === '') throw refused(whichMissing)
      const session = uploads.find(principal, cleanPath(query.path), Number(query.size))
      if (!session) throw refused(uploadMissing)
      return snapshotOf(api, session)
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/multipart/abort',
    tag: 'Uploads',
    summary: 'Abort an upload in chunks, and discard what was received',
    access: 'guest',
    headers: idHeader,
    data: snapshotData,
    refusalData,
    refusals: [idMissing, ...sessionRefusals],
    answer: ({ api, context, headers, principal }) =>
      withSession(api, context, principal, headers['x-upload-id'], (session) => api.gateway.uploads.abort(session)),
  }),
]

/** Runs `work` with the session, and returns its snapshot, which errors have too. */
async function withSession(
  api: HttpApi,
  context: Exchange,
  principal: Principal,
  id: string,
  work: (session: UploadSession) => Promise<unknown>,
): Promise<Snapshot> {
  const responses = { not_found: uploadMissing, denied: uploadOfOther }
  const session = await withResponses(responses, () => api.gateway.uploads.get(principal, id))
  return withResponses({ busy: chunkInFlight, not_found: uploadMissing }, async () => {
    try {
      await work(session)
      return snapshotOf(api, session)
    } catch (error) {
      context.state.refusalData = snapshotOf(api, session)
      const { failure } = session
      if (!failure || error !== failure) throw error
      const { message, error: name } = toErrorResponse(failure)
      throw worded(failure, { code: failedCode, text: message, error: name })
    }
  })
}

function snapshotOf(api: HttpApi, session: UploadSession): Snapshot {
  const { id, state, attempt, file, chunkSize, totalChunks, frontier, receivedBytes, storedBytes, failure } = session
  return {
    upload_id: id,
    state,
    attempt,
    path: file.path,
    size: file.size,
    chunk_size: chunkSize,
    total_chunks: totalChunks,
    received: frontier === 0 ? [] : [[0, frontier - 1]],
    received_bytes: receivedBytes,
    frontier,
    storage_progress: Math.floor((10_000 * storedBytes) / file.size) / 100,
    ...(failure && { error: api.masks.apply(toErrorResponse(failure).message) }),
  }
}
