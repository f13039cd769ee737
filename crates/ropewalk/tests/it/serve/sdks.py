"""What programs do with the providers' own SDKs: sdks.py BASE_URL API_KEY. Prints what the models said, one line each.

Every model is a scripted one that obeys cues in the newest text: `!tool NAME INPUT`, `!error STATUS`.
"""

import json
import sys

import anthropic
import openai

base_url, api_key = sys.argv[1:]
claude = anthropic.Anthropic(base_url=base_url, api_key=api_key, max_retries=2)
gpt = openai.OpenAI(base_url=base_url + "/v1", api_key=api_key, max_retries=2)

CALL = '!tool get_weather {"city": "Oslo"}'
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def messages_conversation():
    """Whole, streamed, a tool call streamed, its result."""
    tools = [{"name": "get_weather", "description": "The weather of a city", "input_schema": SCHEMA}]
    said = []

    def ask(content, streams):
        said.append({"role": "user", "content": content})
        asked = dict(model="claude-scripted", max_tokens=256, messages=said, tools=tools)
        if streams:
            with claude.messages.stream(**asked) as stream:
                text = "".join(stream.text_stream)
                answer = stream.get_final_message()
            assert text == answer.content[0].text
        else:
            answer = claude.messages.create(**asked)
        said.append({"role": "assistant", "content": answer.content})
        print(answer.content[0].text)
        return answer

    ask("Which ropes are there?", streams=False)
    ask("And which is the longest?", streams=True)
    answer = ask("How is the weather there?\n" + CALL, streams=True)
    call = answer.content[1]
    assert (answer.stop_reason, call.name, call.input) == ("tool_use", "get_weather", {"city": "Oslo"})
    ask([{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}], streams=False)


def chat_conversation():
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    said = [{"role": "system", "content": "You know ships."}]

    def ask(message, streams):
        said.append(message)
        asked = dict(model="gpt-5", messages=said, tools=tools)
        if streams:
            with gpt.chat.completions.stream(**asked) as stream:
                for _ in stream:
                    pass
                answer = stream.get_final_completion()
        else:
            answer = gpt.chat.completions.create(**asked)
        said.append(answer.choices[0].message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
        print(answer.choices[0].message.content)
        return answer.choices[0]

    ask({"role": "user", "content": "What is a halyard?"}, streams=False)
    ask({"role": "user", "content": "And a sheet?"}, streams=True)
    choice = ask({"role": "user", "content": "May we sail?\n" + CALL}, streams=True)
    call = choice.message.tool_calls[0]
    assert choice.finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Oslo"})
    ask({"role": "tool", "tool_call_id": call.id, "content": "rain"}, streams=False)


def responses_conversation():
    said = []
    for text, streams in [("What is a bowline?", False), ("Show me one.", True)]:
        said.append({"role": "user", "content": text})
        if streams:
            with gpt.responses.stream(model="gpt-5", input=said) as stream:
                for _ in stream:
                    pass
                answer = stream.get_final_response()
        else:
            answer = gpt.responses.create(model="gpt-5", input=said)
        said += [item.model_dump(exclude_none=True) for item in answer.output]
        print(answer.output_text)


def errors():
    """The first try fails and the SDK tries again by itself; what fails for good is raised as the provider's error."""
    said = [{"role": "user", "content": "Is this flaky?"}]
    answer = claude.messages.create(model="claude-scripted", max_tokens=256, messages=said)
    print(answer.content[0].text)
    said = [{"role": "user", "content": "Is this flaky as well?"}]
    answer = gpt.chat.completions.create(model="gpt-5", messages=said)
    print(answer.choices[0].message.content)
    try:
        said = [{"role": "user", "content": "Do not.\n!error 400"}]
        claude.messages.create(model="claude-scripted", max_tokens=256, messages=said)
    except anthropic.BadRequestError as error:
        assert "invalid_request_error" in str(error), error
    else:
        raise AssertionError("no error")
    try:
        gpt.chat.completions.create(model="gpt-5", messages=said)
    except openai.BadRequestError as error:
        assert error.type == "invalid_request_error", error
    else:
        raise AssertionError("no error")


messages_conversation()
chat_conversation()
responses_conversation()
errors()
