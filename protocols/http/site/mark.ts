/** The mark of the program: a gate above two waves. */
const drawing =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="none" stroke-width="2.6" stroke-linecap="round">' +
  '<rect width="32" height="32" rx="7" fill="#1457c0"/>' +
  '<path stroke="#fff" d="M7 7h18M10 7v9M16 7v9M22 7v9"/>' +
  '<path stroke="#9cc7ff" d="M4 21q4-3.6 8 0t8 0 8 0M4 26.5q4-3.6 8 0t8 0 8 0"/></svg>'

/** The URL of the mark, for which a browser sends no request. */
export const markUrl = `data:image/svg+xml,${encodeURIComponent(drawing)}`
