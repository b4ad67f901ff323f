/**
 * The declaration of an endpoint: path, access, request, response and errors. The router, the OpenAPI document and the
 * tests are all derived from it (docs/decisions/0011).
 */
import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import type { EventKind } from '../../../src/audit/event.js'
import type { ErrorName } from './errors.js'
import type { Exchange, HttpApi } from './http-api.js'
import type { StreamedArray } from './streamed-array.js'

/**
 * Who may call an endpoint. `anybody`: no authentication; a token is ignored. `guest`: any user; without a token the
 * guest, if that account is enabled. `user`: any user but the guest. `admin`: admins. `VirtualFs` checks permissions
 * and folder rules.
 */
export type Audience = 'anybody' | 'guest' | 'user' | 'admin'

export const tags = {
  Public: 'Information that needs no authentication.',
  'Signing in': 'Tokens, and two-step verification.',
  'Own account': 'The account of the current user, with its SSH keys and app passwords.',
  Files: 'Reading and changing the tree.',
  Uploads: 'Sending files. The body is the content of the file; headers hold its path and attributes.',
  Downloads: 'Downloads of files. They are authorized by the signature in the URL, not by a session.',
  Shares: 'Files and folders for visitors who have no account, by an id.',
  Users: 'Administration of accounts.',
  Audit: 'Who did what: the events that the gateway records.',
  Groups: 'Administration of groups of users, and of what they may do at which paths.',
  'Folder rules': 'Administration of folder rules: passwords, hidden names, notes. Clients call them metas.',
  Tasks: 'Background work: uploads, copies and moves that outlive the request. Users see their own tasks, admins all.',
  Locks: 'Administration of locks. WebDAV clients create them, and every protocol honors them.',
  Storages: 'Administration of the mounted storages.',
  Drivers: 'The drivers that storages can use.',
  Settings: 'Administration of settings.',
  Webhooks: 'Where events are sent, what was not received, and its repetition.',
  'Search index': 'Administration of the search index.',
  Process: 'The daemon, and its log, for admins.',
  Documentation: 'This document, as JSON and as a page.',
  Site: 'Resources that browsers, crawlers and monitors request from any site.',
} as const

type Tag = keyof typeof tags

/** An error response: the `code`, `message` and `error` of the envelope. */
export interface Refusal {
  readonly code: number
  /** The message; `…` matches any text. */
  readonly text: string
  /** The name. Several refusals have the same text `…` and different names. */
  readonly error: ErrorName
  /** The condition under which it is sent. */
  readonly when?: string
}

type Method = 'get' | 'post' | 'put'

/** A response without an envelope. */
export interface PlainResponse {
  readonly status: number
  readonly description: string
  /** Media types of the body. Absent: no body. */
  readonly types?: readonly string[]
}

/** A request body that is file content instead of fields. */
export interface BodyContent {
  readonly type: string
  readonly description: string
  /** The name of the form's part that holds the content. Absent: the whole body is content. */
  readonly part?: string
}

/** Everything about an endpoint except its handler. */
export interface EndpointDescription {
  /** `any`: all methods, because clients differ. GET and HEAD read the fields from the query. */
  readonly method: Method | 'any'
  readonly path: `/${string}`
  /** What the document calls it if another endpoint has this path. Default: the path. */
  readonly operation?: string
  readonly tag: Tag
  readonly summary: string
  readonly description?: string
  readonly access: Audience
  /** With access `anybody`: the handler reads the token if there is one. */
  readonly readsToken?: boolean
  /** The error for the guest if access is `user`. Default: 401 `user invalid`. */
  readonly guestRefusal?: Refusal
  /**
   * Whether the request needs a sign-in within the last ten minutes, because it changes or shows a credential that
   * outlives the session (docs/decisions/0042). The permanent token needs none.
   */
  readonly recentSignIn?: true | ((request: Pick<Call, 'api' | 'fields' | 'query'>) => boolean)
  /**
   * The event of a request that changes something besides the tree, with the names of the fields that it has: the audit
   * records it. Requests for the tree have their events there.
   */
  readonly event?: EventKind
  /** The name of what the event is about, asked before the request and after it. Default: by its kind and the `id`. */
  readonly about?: (request: Named) => NameFound
  /** Whether a user can call it who must set up two-step verification first, because a group requires that. */
  readonly setsUpTwoStep?: true
  /** The schema of the path's `{names}`. A mismatch is 404 `no such endpoint`. */
  readonly params?: z.ZodType
  /** The schema of the query, for every method. */
  readonly query?: z.ZodType
  /** The message about an invalid query, where clients compare it. Default: the message names the field. */
  readonly faultyQuery?: string
  /** The schema of the headers, by lower-case name. */
  readonly headers?: z.ZodType
  /** The schema of the fields: of the body as JSON or a form, or of the query of GET and HEAD. */
  readonly fields?: z.ZodType
  /**
   * The handler parses the fields itself, and `Call.fields` is undefined. For handlers that answer errors themselves.
   */
  readonly parsesFields?: boolean
  /** The message about invalid fields, where clients compare it. Default: the message names the field. */
  readonly faultyFields?: string
  /** Maximum size of a body with fields, in bytes. Default: `bodyLimit` of fields.ts. */
  readonly bodyLimit?: number
  /** The field to which a body that is a JSON array is assigned. */
  readonly listField?: string
  readonly content?: BodyContent
  /** The schema of the `data` of a success. Absent: null. */
  readonly data?: z.ZodType
  /**
   * The `data` of errors after the caller is authorized: its schema, and what it is unless the handler sets it, by
   * default null.
   */
  readonly refusalData?: { readonly schema: z.ZodType; readonly empty?: object }
  /** Errors in addition to those that follow from access and fields. */
  readonly refusals?: readonly Refusal[]
  /** Further media types of a success, if `Accept` names them: the handler sends these responses itself. */
  readonly otherTypes?: readonly string[]
  /** Responses without an envelope, which the handler writes. */
  readonly plain?: readonly PlainResponse[]
}

/** An authorized request whose parts match their schemas. */
export interface Call<
  Fields = unknown,
  Query = unknown,
  Headers = unknown,
  Who = Principal | undefined,
  Params = unknown,
> {
  readonly api: HttpApi
  readonly context: Exchange
  /** Undefined if access is `anybody`. */
  readonly principal: Who
  readonly fields: Fields
  readonly query: Query
  readonly headers: Headers
  /** The values of the path's `{names}`. */
  readonly params: Params
}

/** What an event is named by. */
type Named<Fields = unknown, Query = unknown> = Pick<
  Call<Fields, Query, unknown, Principal>,
  'api' | 'fields' | 'query' | 'principal'
>
type NameFound = string | undefined | Promise<string | undefined>

/** The requests of an endpoint that need no account: those about shares. A token is ignored, also a bad one. */
interface ForVisitors<Asked, Answer> {
  /** Whether the request is one of them. */
  are(request: Asked): boolean
  /** Whether one that does not match the schemas is meant to be one of them. Default: it is not. */
  seem?(request: IncomingMessage): boolean
  answer: Answer
}

export interface Endpoint extends EndpointDescription {
  /** The answers to visitors of shares. Absent: there are none. */
  readonly visitors?: ForVisitors<Pick<Call, 'fields' | 'headers'>, (call: Call) => unknown>
  /** Returns the `data` of the envelope. Errors become error responses. With `plain` it writes the response itself. */
  answer(call: Call): unknown
}

type Output<S> = S extends z.ZodType ? z.output<S> : undefined
/** The result of `answer`. It is ignored if no data is declared. */
type Data<S> = S extends z.ZodType ? ListOrStream<z.input<S>> | Streamable<z.input<S>> : unknown
/** A list of objects may be a `StreamedArray`. */
type ListOrStream<T> = T extends (infer Shown extends object)[] ? T | StreamedArray<Shown> : T
/** A field of an object may be a `StreamedArray` too. */
type Streamable<T> = { [Key in keyof T]: ListOrStream<T[Key]> }

/** Returns the declaration. Checks at compile time that the types of `answer` match the schemas. */
export function endpoint<
  const Who extends Audience,
  Fields extends z.ZodType | undefined = undefined,
  Query extends z.ZodType | undefined = undefined,
  Headers extends z.ZodType | undefined = undefined,
  Answer extends z.ZodType | undefined = undefined,
  Params extends z.ZodType | undefined = undefined,
  const ParsesFields extends boolean = false,
>(
  declaration: Omit<
    EndpointDescription,
    'access' | 'recentSignIn' | 'about' | 'fields' | 'parsesFields' | 'query' | 'headers' | 'data' | 'params'
  > & {
    readonly access: Who
    readonly recentSignIn?:
      | true
      | ((request: {
          readonly api: HttpApi
          readonly fields: Output<Fields>
          readonly query: Output<Query>
        }) => boolean)
    readonly about?: (request: Named<Output<Fields>, Output<Query>>) => NameFound
    readonly fields?: Fields
    readonly parsesFields?: ParsesFields
    readonly query?: Query
    readonly headers?: Headers
    readonly data?: Answer
    readonly params?: Params
    readonly visitors?: ForVisitors<
      { readonly fields: Output<Fields>; readonly headers: Output<Headers> },
      (
        call: Call<Output<Fields>, Output<Query>, Output<Headers>, undefined, Output<Params>>,
      ) => Data<Answer> | Promise<Data<Answer>>
    >
    answer(
      call: Call<
        ParsesFields extends true ? undefined : Output<Fields>,
        Output<Query>,
        Output<Headers>,
        Who extends 'anybody' ? undefined : Principal,
        Output<Params>
      >,
    ): Data<Answer> | Promise<Data<Answer>>
  },
): Endpoint {
  return declaration as Endpoint
}
