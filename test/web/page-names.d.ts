/**
 * What functions that run in the page use of the browser. The project is compiled without its library of such names.
 */

declare class HTMLElement {
  readonly textContent: string | null
  readonly ariaLabel: string | null
  readonly ariaRowIndex: string | null
  readonly outerHTML: string
  readonly tagName: string
  readonly className: string
  readonly style: { readonly width: string }
  readonly contentWindow: object | null
  scrollTop: number
  readonly scrollHeight: number
  readonly scrollWidth: number
  readonly clientHeight: number
  readonly clientWidth: number
  readonly parentElement: HTMLElement | null
  closest(selector: string): HTMLElement | null
  matches(selector: string): boolean
  getAttribute(name: string): string | null
  querySelector(selector: 'canvas'): HTMLCanvasElement | null
  // eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- The declarations of browsers have it too.
  querySelector<Found extends HTMLElement>(selector: string): Found | null
  querySelectorAll<Found extends HTMLElement>(selector: string): Iterable<Found> & { readonly length: number }
  getBoundingClientRect(): DOMRect
  append(...nodes: readonly HTMLElement[]): void
  submit(): void
}

/** Named by the types of the browser's driver. */
declare class SVGElement extends HTMLElement {}

declare class HTMLInputElement extends HTMLElement {
  readonly labels: readonly HTMLElement[] | null
  readonly value: string
}

declare class HTMLImageElement extends HTMLElement {
  readonly alt: string
  readonly naturalWidth: number
  readonly naturalHeight: number
}

declare class HTMLCanvasElement extends HTMLElement {
  readonly width: number
  readonly height: number
  getContext(kind: '2d'): {
    getImageData(x: number, y: number, width: number, height: number): { readonly data: Uint8ClampedArray }
  } | null
}

declare class HTMLMediaElement extends HTMLElement {
  readonly currentSrc: string
  readonly duration: number
  readonly paused: boolean
  readonly readyState: number
  readonly textTracks: Iterable<{ readonly mode: string; readonly activeCues: Iterable<VTTCue> | null }>
  muted: boolean
  onloadedmetadata: ((event: unknown) => void) | null
  onended: ((event: unknown) => void) | null
  onseeked: ((event: unknown) => void) | null
  currentTime: number
  play(): Promise<void>
  pause(): void
}

declare class HTMLAudioElement extends HTMLMediaElement {}

declare class HTMLVideoElement extends HTMLMediaElement {}

interface VTTCue {
  getCueAsHTML(): { readonly textContent: string | null }
}

declare class DOMRect {
  readonly x: number
  readonly y: number
  readonly top: number
  readonly bottom: number
  readonly width: number
  readonly height: number
}

declare const document: Pick<HTMLElement, 'querySelector' | 'querySelectorAll'> & {
  readonly activeElement: HTMLElement | null
  readonly fullscreenElement: HTMLElement | null
  readonly body: HTMLElement
  readonly documentElement: HTMLElement
  readonly cookie: string
  readonly title: string
  createElement(name: 'canvas'): HTMLCanvasElement
  createElement(name: string): HTMLElement
  elementFromPoint(x: number, y: number): HTMLElement | null
}

declare const innerWidth: number

declare function getComputedStyle(element: HTMLElement): { readonly color: string }
