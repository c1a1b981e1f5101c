--
-- PostgreSQL database dump
--

\restrict c0ffee


SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: department; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.department (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    name character varying(40) NOT NULL,
    floor smallint DEFAULT '-1'::integer NOT NULL,
    budget numeric(12,2),
    opened date,
    closed date,
    CONSTRAINT department_budget_check CHECK ((budget >= (0)::numeric)),
    CONSTRAINT department_budget_check1 CHECK ((budget < (1000000)::numeric)),
    CONSTRAINT department_check CHECK ((closed > opened)),
    CONSTRAINT department_floor_check CHECK (((floor >= '-2'::integer) AND (floor <= 99)))
);

ALTER TABLE public.department OWNER TO postgres;

--
-- Name: employee; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.employee (
    id bigint NOT NULL,
    department uuid,
    room integer,
    floor smallint,
    badge bigint NOT NULL,
    hired timestamp with time zone DEFAULT now(),
    boss bigint,
    dname character varying(40),
    CONSTRAINT paid CHECK ((badge > 0))
);

ALTER TABLE public.employee OWNER TO postgres;

--
-- Name: employee_badge_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

ALTER TABLE public.employee ALTER COLUMN badge ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.employee_badge_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: employee_id_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.employee_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER TABLE public.employee_id_seq OWNER TO postgres;

--
-- Name: employee_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.employee_id_seq OWNED BY public.employee.id;

--
-- Name: heads; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.heads AS
 SELECT employee.boss AS id,
    employee.dname AS name
   FROM public.employee;

ALTER TABLE public.heads OWNER TO postgres;

--
-- Name: employee id; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.employee ALTER COLUMN id SET DEFAULT nextval('public.employee_id_seq'::regclass);

--
-- Name: department department_floor_name_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.department
    ADD CONSTRAINT department_floor_name_key UNIQUE (floor, name);

--
-- Name: department department_name_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.department
    ADD CONSTRAINT department_name_key UNIQUE (name);

--
-- Name: department department_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.department
    ADD CONSTRAINT department_pkey PRIMARY KEY (id);

--
-- Name: employee employee_badge_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.employee
    ADD CONSTRAINT employee_badge_key UNIQUE (badge);

--
-- Name: employee employee_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.employee
    ADD CONSTRAINT employee_pkey PRIMARY KEY (id);

--
-- Name: by_boss; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX by_boss ON public.employee USING btree (boss, id);

--
-- Name: employee_room_floor_idx; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX employee_room_floor_idx ON public.employee USING btree (room, floor DESC NULLS LAST);

--
-- Name: employee_room_idx; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX employee_room_idx ON public.employee USING btree (room);

--
-- Name: employee employee_boss_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.employee
    ADD CONSTRAINT employee_boss_fkey FOREIGN KEY (boss) REFERENCES public.employee(id) ON DELETE SET NULL;

--
-- Name: employee employee_department_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.employee
    ADD CONSTRAINT employee_department_fkey FOREIGN KEY (department) REFERENCES public.department(id) ON UPDATE SET NULL ON DELETE CASCADE;

--
-- Name: employee employee_department_fkey1; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.employee
    ADD CONSTRAINT employee_department_fkey1 FOREIGN KEY (department) REFERENCES public.department(id);

--
-- Name: employee where_it_is; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.employee
    ADD CONSTRAINT where_it_is FOREIGN KEY (dname, floor) REFERENCES public.department(name, floor) DEFERRABLE;

--
-- PostgreSQL database dump complete
--

\unrestrict c0ffee

