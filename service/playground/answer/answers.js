// Answers as the page keeps them: the response of the service, with what is needed to show and explain it.

// Ask one or several models; a text too long for an explanation is answered without one. `context` is kept in the answers.
export async function requestAnswers(tab, requests, context, signal, onPrefix) {
  const ask = (change) => Promise.all(requests.map((request) => requestAnswer(tab, { ...request, ...change }, context, signal, onPrefix)));
  return ask({}).catch((error) => {
    if (error.fields?.includes("explain")) return ask({ explain: false });
    throw error;
  });
}

async function requestAnswer(tab, request, { pair, imageUrl }, signal, onPrefix) {
  const started = performance.now();
  const response = await tab.send(request, signal, onPrefix);
  return {
    ...response,
    request,
    given: request.q ?? request.text ?? request.source_text ?? "",
    selected: 0,
    text: tab.text(response),
    languages: pair(response.detectedLanguage?.language),
    imageUrl: request.image && imageUrl,
    milliseconds: performance.now() - started,
  };
}

// The outputs of an answer, best first; and the one that is selected.
export const choices = (answer) => [answer.text, ...(answer.alternatives ?? [])];
export const answerText = (answer) => choices(answer)[answer.selected];
