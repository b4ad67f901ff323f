/** A value that is available now, or later. `await` takes both; `instanceof Promise` tells them apart. */
export type Awaitable<T> = T | Promise<T>
