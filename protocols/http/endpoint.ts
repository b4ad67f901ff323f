/**
 * One declaration for each endpoint: where it is, who may call it, what it takes, what it answers, how it refuses. The
 * router, the document of the API and the tests all read this one (docs/decisions/0011).
 */
import type { z } from 'zod'
import type { Principal } from '../../src/principal.js'
import type { Context, Door } from './context.js'
import type { LongList } from './long-list.js'

/**
 * Who may call. `anybody`: no token is looked at. `guest`: without a token it is the guest who calls, as long as that account
 * is enabled. `user`: whoever is signed in. Bits of permission and folder rules are judged later, in the tree itself.
 */
export type Access = 'anybody' | 'guest' | 'user' | 'admin'

export const tags = {
  Public: 'What anybody may ask.',
  'Signing in': 'Tokens, and two-step verification.',
  'Own account': 'The user who asks, with the keys and app passwords of that user.',
  Files: 'Looking at the tree, and changing it.',
  Uploads: 'Sending files. The path and everything else about a file is in headers; the body is its content.',
  Links: 'The bytes of files. A signature in the link says what may be read, not a signed-in user.',
  Users: 'Administration of accounts.',
  'Folder rules':
    'Administration of what is said about folders: passwords, hidden names, notes. Clients know them as metas.',
  Tasks:
    'Background work: uploads, copies and moves that outlive the request. Users see their own, an admin everybody’s.',
  Locks: 'Administration of the locks of the tree, which WebDAV clients take and every door honours.',
  Storages: 'Administration of what is mounted where.',
  Drivers: 'What storages can be made of.',
  Settings: 'Administration of settings.',
  'Search index': 'Administration of the index that searches read.',
  Documentation: 'This document, for programs and for people.',
  Site: 'What browsers, crawlers and monitors ask of any site.',
} as const

export type Tag = keyof typeof tags

/** An answer that is no success, as a client is told of it. */
export interface Refusal {
  readonly code: number
  /** `…` stands for what differs from case to case. */
  readonly text: string
  readonly when?: string
}

export type Method = 'get' | 'post' | 'put'

/** What is answered where it is no envelope. */
export interface PlainAnswer {
  readonly status: number
  readonly description: string
  /** Media types of the body; absent: there is none. */
  readonly types?: readonly string[]
}

/** A body that is no fields but content. */
export interface Content {
  readonly type: string
  readonly description: string
  /** The part of a form that holds it. */
  readonly part?: string
}

/** What is told of an endpoint; everything but how it comes by its answer. */
export interface Description {
  /** `any`: clients of all ages call it by whatever method. GET reads the fields from the query. */
  readonly method: Method | 'any'
  readonly path: `/${string}`
  readonly tag: Tag
  readonly summary: string
  readonly description?: string
  readonly access: Access
  /** Anybody may call, and a token that comes along is read all the same. */
  readonly readsToken?: boolean
  /** What the guest is told where users may call; unless said otherwise 401 `user invalid`. */
  readonly guestRefusal?: Refusal
  /** Of the `{names}` in the path; where one does not fit, there is no such endpoint. */
  readonly params?: z.ZodType
  /** In the query, whatever the method. */
  readonly query?: z.ZodType
  /** The text about a faulty query that clients know; otherwise it names the field. */
  readonly faultyQuery?: string
  /** By their lower-case names. */
  readonly headers?: z.ZodType
  /** In the body, as JSON or a form; of a GET in the query. */
  readonly fields?: z.ZodType
  /** The text about faulty fields that clients know; otherwise it names the field. */
  readonly faultyFields?: string
  /** Bytes of a body with fields. */
  readonly bodyLimit?: number
  /** The field that a body which is a list stands for. */
  readonly listField?: string
  readonly content?: Content
  /** Of the envelope of a success; absent: null. */
  readonly data?: z.ZodType
  /** What every refusal carries as data once it is known who calls; absent: null. */
  readonly refusalData?: Readonly<Record<string, number>>
  /** Beside those that follow from access and fields. */
  readonly refusals?: readonly Refusal[]
  /** Instead of an envelope. */
  readonly plain?: readonly PlainAnswer[]
}

/** A request that has been let in and whose parts fit their schemas. */
export interface Call<
  Fields = unknown,
  Query = unknown,
  Headers = unknown,
  Who = Principal | undefined,
  Params = unknown,
> {
  readonly door: Door
  readonly context: Context
  /** Undefined where anybody may call. */
  readonly principal: Who
  readonly fields: Fields
  readonly query: Query
  readonly headers: Headers
  /** Of the path. */
  readonly params: Params
}

export interface Endpoint extends Description {
  /** Resolves to the data of the envelope. What it throws becomes a refusal. With `plain` it writes the answer itself. */
  answer(call: Call): unknown
}

type Output<S> = S extends z.ZodType ? z.output<S> : undefined
/** What `answer` gives where no data is declared is not looked at. */
type Data<S> = S extends z.ZodType ? Given<z.input<S>> : unknown
/** A field that is a list may be given as one that is made while it is written. */
type Given<T> = {
  [Key in keyof T]: T[Key] extends (infer Shown extends object)[] ? T[Key] | LongList<Shown> : T[Key]
}

/** Checks at compile time that `answer` takes what the schemas give, and gives the data that is declared. */
export function endpoint<
  const Who extends Access,
  Fields extends z.ZodType | undefined = undefined,
  Query extends z.ZodType | undefined = undefined,
  Headers extends z.ZodType | undefined = undefined,
  Answer extends z.ZodType | undefined = undefined,
  Params extends z.ZodType | undefined = undefined,
>(
  declaration: Omit<Description, 'access' | 'fields' | 'query' | 'headers' | 'data' | 'params'> & {
    readonly access: Who
    readonly fields?: Fields
    readonly query?: Query
    readonly headers?: Headers
    readonly data?: Answer
    readonly params?: Params
    answer(
      call: Call<
        Output<Fields>,
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
